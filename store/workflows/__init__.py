"""Runs of applications: their steps, the variables that join these, and who carries each run out."""
