"""The log of requests: what was decided, what was asked and answered, and what came of it."""
