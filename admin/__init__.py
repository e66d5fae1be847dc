"""SHOWS: what happened and what it saved, read from the store. It changes nothing."""
