"""The proof behind answering a similar question from memory: observations, bounds, decisions."""
