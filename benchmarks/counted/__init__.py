"""How many Python functions a request calls: deterministic, whatever else the machine does."""
