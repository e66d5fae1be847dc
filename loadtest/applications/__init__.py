"""Applications that make calls which feed each other: their shapes, and who carries them out."""
