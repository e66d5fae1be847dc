"""The passes: each takes a graph of primitives and gives one in which something may run earlier."""
