"""PRETENDS: simulated engines, their invented world, a judge and a generator, and the demo. No model is behind any of it."""
