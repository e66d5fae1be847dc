"""What is lost at most by answering without the reference: evidence, change detectors, bounds, shares of checks."""
