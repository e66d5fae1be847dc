"""COMPOSES: templates, transforms, graphs of steps joined by variables, and their progress. Pure: no I/O and no waiting."""
