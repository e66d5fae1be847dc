"""SHOWS: what happened, why, and what it saved, read from the store; what a person may change, one action at a time."""
