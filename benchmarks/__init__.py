"""Measurements: one folder per question. `python -m benchmarks.NAME` answers it; README.md lists the questions."""
