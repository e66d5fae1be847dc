"""Replay: the bank betters itself within a budget while traffic is low, and anybody can take it back."""
