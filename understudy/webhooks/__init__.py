"""Tells operators, over HTTP, what they would otherwise have to look for."""
