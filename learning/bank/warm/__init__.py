"""Keeps the prefixes of the most used examples in engines' caches: a stable order, and warming while traffic is low."""
