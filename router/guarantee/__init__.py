"""Bounds what is lost by answering without the reference: evidence, change detectors, bounds, shares of checks."""
