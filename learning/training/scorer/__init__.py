"""Trains the scorer of examples, and writes it as an ONNX graph."""
