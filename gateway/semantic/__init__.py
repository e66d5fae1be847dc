"""Answers reused for similar questions, where somebody opted in and it is proven to be safe."""
