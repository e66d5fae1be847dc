"""Whole answers kept for exact repeats, and for similar questions where somebody opted in."""
