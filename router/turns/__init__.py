"""Tells which conversation a request goes on with, and what its turn costs at each engine (docs/explanation/routing.md)."""
