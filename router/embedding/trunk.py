"""Runs the first layers of the sentence encoder, on the caller's thread: what a fine-tuned student goes on from.

Fine-tuning changes the last layers only, so a student holds those (4 MB) and all students of a process share the rest. The
layers are cut out of the int8 model that the embedder runs, so a student sees the same numbers when it answers as when it
was trained. A text takes two thirds of the time that its embedding takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from router.embedding.embedder import ends, load_tokenizer
from router.embedding.onnx_session import load

if TYPE_CHECKING:
    import numpy.typing as npt

    States = npt.NDArray[np.float32]
    """(1, tokens, hidden)"""

TUNED = 2
"""The last layers, which students change. With one instead of two nothing was gained on RT-Polarity."""
_MOST_CHARACTERS, _MOST_TOKENS = 1500, 128


class Trunk:
    """Hidden states of a text behind the first layers. Thread-safe."""

    def __init__(self, model: Path, tokenizer: Path) -> None:
        """Loads `model`, which router.embedding.minilm_onnx built: a tenth of a second. Raises ValueError for another."""
        data, self._most_tokens = _first_layers(model)
        self._session = load(data)
        self._tokenizer = load_tokenizer(tokenizer)

    def states(self, text: str) -> States:
        """The states of a text, which is cut from its middle. Blocks for milliseconds."""
        readable = ends(text, _MOST_CHARACTERS).encode("utf-8", "replace").decode("utf-8")
        ids = ends(self._tokenizer.encode(readable).ids, self._most_tokens)
        found: States = self._session.run(None, {"input_ids": np.array([ids], np.int64)})[0]
        return found


def _first_layers(path: Path) -> tuple[bytes, int]:
    """The model up to the layers that students change, and the most tokens that it reads."""
    import onnx
    from onnx.utils import Extractor

    model = onnx.load(path)
    sizes = {constant.name: constant.dims for constant in model.graph.initializer}
    norms = ["embeddings.LayerNorm.weight"]
    while (norm := f"encoder.layer.{len(norms) - 1}.output.LayerNorm.weight") in sizes:
        norms.append(norm)
    if len(norms) <= TUNED or "places" not in sizes:
        raise ValueError(f"{path} is no encoder of {TUNED} layers or more")
    last: list[Any] = [node.output[0] for node in model.graph.node if norms[-1 - TUNED] in node.input]
    data = Extractor(model).extract_model(["input_ids"], last).SerializeToString()
    return bytes(data), min(_MOST_TOKENS, sizes["places"][0])
