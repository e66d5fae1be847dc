"""Finds out how good answers were: by feedback, by corrections, and by a judge that compares a sample within a budget."""
