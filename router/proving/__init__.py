"""Decides from evidence whether a smaller engine may answer a request: see docs/explanation/proof.md."""
