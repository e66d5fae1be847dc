"""What every test shares. onnxruntime comes first: imported after usearch it crashes the process (docs/dependencies.md)."""

import onnxruntime  # noqa: F401
