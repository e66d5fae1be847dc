"""The bank of examples: rows, the log of changes, search, and the vector index derived from them."""
