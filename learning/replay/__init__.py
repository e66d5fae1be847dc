"""Replay: improves stored examples off-peak within a budget; every change can be taken back."""
