"""How many Python functions are called on the event loop: deterministic, whatever else the machine does."""
