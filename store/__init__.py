"""REMEMBERS: SQLite is the truth; the vector index is derived from it and can always be rebuilt."""
