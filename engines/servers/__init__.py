"""The servers of an engine: each tells whether it may be asked now, and when next; a list of them chooses."""
