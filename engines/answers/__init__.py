"""Reads answers: merged, ended, usage, silence; one reader for each API, and whoever asks about an answer asks it."""
