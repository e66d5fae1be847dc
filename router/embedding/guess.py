"""Guesses a text's embedding in a tenth of a millisecond, for requests whose embedding is late.

A linear map from the mean of the word pieces' own vectors (the first layer of the same model) to the embedding, learnt by
ridge regression (Hoerl and Kennard 1970) from the texts that are embedded. It gives vectors of the same space, so the same
index is searched, and nothing is kept per example. It holds sums over all texts only. What it finds:
docs/experiments/late-embeddings.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from store.records import Vector

LEARNT_FROM = 1024
"""Texts from which on it guesses: it then finds more of the nearest examples than the means alone, on all data tried."""
_SOLVED_EVERY = 512
_BATCH = 64
_REMEMBERED = 8192
"""Texts after which all earlier ones count half: what is asked changes."""
_RIDGE = 1e-4
_TABLE = "embeddings.word_embeddings.weight"
_TYPES = {"F32": np.float32, "F16": np.float16}


def word_pieces(weights: Path) -> npt.NDArray[Any] | None:
    """The vector of each word piece, in the order of the vocabulary; None where the file has none that can be read.

    `weights`: a `.safetensors` file. It is mapped, not read: processes share its pages.
    """
    try:
        with weights.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            told = json.loads(file.read(size))[_TABLE]
        place, kind = 8 + size + told["data_offsets"][0], _TYPES[told["dtype"]]
        return np.memmap(weights, kind, "r", place, tuple(told["shape"]))
    except (OSError, ValueError, KeyError):
        return None


class Guess:
    """The map. One thread tells it what was embedded, any may ask."""

    def __init__(self, table: npt.NDArray[Any], dimensions: int) -> None:
        """`table`: see `word_pieces`. `dimensions`: of the embedding."""
        self._table = table
        width = table.shape[1]
        self._inner = np.zeros((width, width), np.float32)
        self._outer = np.zeros((width, dimensions), np.float32)
        self._means = np.empty((_BATCH, width), np.float32)
        self._vectors = np.empty((_BATCH, dimensions), np.float32)
        self._count = 0
        self._map: npt.NDArray[np.float32] | None = None

    def learn(self, ids: npt.NDArray[np.int64], vector: Vector) -> None:
        """Take in the embedding of a text of these word pieces. 20 us, and some milliseconds for one text in 512."""
        place = self._count % _BATCH
        self._means[place], self._vectors[place] = self._mean(ids), vector
        self._count += 1
        if self._count % _BATCH:
            return
        self._inner += self._means.T @ self._means
        self._outer += self._means.T @ self._vectors
        if self._count >= LEARNT_FROM and self._count % _SOLVED_EVERY == 0:
            ridge = _RIDGE * self._count * np.eye(len(self._inner), dtype=np.float32)
            self._map = np.linalg.solve(self._inner + ridge, self._outer)
        if self._count == _REMEMBERED:
            self._inner /= 2
            self._outer /= 2
            self._count //= 2

    def of(self, ids: npt.NDArray[np.int64]) -> Vector | None:
        """The embedding that a text of these word pieces may have, of length 1; None before enough was learnt."""
        if self._map is None:
            return None
        vector: Vector = self._mean(ids) @ self._map
        length = float(np.linalg.norm(vector))
        return vector / length if length else None

    def _mean(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        total = self._table[ids].sum(axis=0, dtype=np.float32)
        return np.asarray(total / max(float(np.linalg.norm(total)), 1e-9), np.float32)
