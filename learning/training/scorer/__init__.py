"""Trains the scorer of examples, and writes it down as an ONNX graph."""
