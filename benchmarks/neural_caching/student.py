"""A student of the product's features and training, which predicts many requests at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.neural_caching.streams import Stream
from engines.prediction import Prediction
from learning.tasks.network import Layers
from learning.tasks.training import Labelled, TooFew, fitted

_SAMPLE = 1024
"""Trained inputs that distances are measured to, as in the product."""


@dataclass(frozen=True)
class BatchStudent:
    """One version."""

    version: int
    labels: tuple[str, ...]
    layers: Layers
    sample: npt.NDArray[np.float32]

    def logs(self, stream: Stream, places: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Log-probabilities, (places, labels)."""
        logits = self.layers.logits(stream.columns[places], stream.vectors[places])
        found: npt.NDArray[np.float64] = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        return found

    def labels_of(self, stream: Stream, places: npt.NDArray[np.int64]) -> list[str]:
        """The likeliest labels."""
        return [self.labels[top] for top in self.logs(stream, places).argmax(axis=1)]


def trained(rows: list[Labelled], version: int, seed: int) -> BatchStudent | None:
    """A student; None where there is too little to learn from."""
    try:
        labels, layers = fitted(rows, seed=seed)
    except TooFew:
        return None
    drawn = np.random.default_rng(seed).permutation(len(rows))[:_SAMPLE]
    return BatchStudent(version, labels, layers, np.stack([rows[place].vector for place in drawn]))


def predictions(
    stream: Stream, places: npt.NDArray[np.int64], members: list[BatchStudent], *, distances: bool = True
) -> list[Prediction]:
    """What the first of `members` makes of each request, with the votes of all."""
    first, *others = members
    logs = first.logs(stream, places)
    tops = logs.argmax(axis=1)
    index = {label: place for place, label in enumerate(first.labels)}
    votes = [[index.get(label, -1) for label in other.labels_of(stream, places)] for other in others]
    far = np.zeros(len(places))
    if distances:
        far = 1 - (stream.vectors[places] @ first.sample.T).max(axis=1)
    return [
        Prediction(
            version=first.version,
            labels=first.labels,
            log_probabilities=tuple(row),
            top=int(top),
            answer="",
            committee=(int(top), *(each[n] for each in votes)),
            distance=float(far[n]),
        )
        for n, (row, top) in enumerate(zip(logs.tolist(), tops, strict=True))
    ]
