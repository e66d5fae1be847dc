"""Outcomes near by: how good each action was on the most similar past requests, and how much that rests on.

Every outcome is kept, in one usearch index per action: an action that was seldom taken has its own nearest outcomes, and
does not vanish among those of another.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]

NEAREST = 50
"""Outcomes of an action that an estimate rests on."""
SHARPNESS = 4.0
"""An outcome whose cosine is 0.1 below the nearest one's has exp(-0.4) of its weight."""
STRANGENESS = 25.0
"""A request whose nearest outcome is 0.1 farther than is usual has a likeness of exp(-2.5)."""
USUAL = 25
"""Percentile of the nearest cosines among the outcomes themselves that still counts as usual."""
PRIOR = 2.0
"""Outcomes' worth that the action's overall mean counts in an estimate."""
_SAMPLE = 300


class Near(NamedTuple):
    """The quality of one action near by."""

    mean: float
    """Expected quality, 0 to 1."""
    evidence: float
    """Outcomes near by, each counted by its nearness and age: 0 for a request unlike any before."""
    overall: float
    """The action's mean over all its outcomes."""
    likeness: float
    """1 for a request as near to an outcome as is usual, towards 0 the farther it is."""
    known: float = 0.0
    """All outcomes of the action, each counted by its age."""


@dataclass(slots=True)
class _Outcomes:
    """The outcomes of one action; `quality` and `weight` are by key of the index."""

    index: Any
    quality: Matrix
    weight: Matrix
    good: float = 0.0
    """Sum of quality times weight."""
    total: float = 0.0
    """Sum of weights."""
    usual: float = 0.0
    """Cosine with its nearest other outcome that three of four outcomes have at least."""

    def add_up(self) -> None:
        """To be called when outcomes were added."""
        self.good, self.total = float(self.quality @ self.weight), float(self.weight.sum())

    def overall(self, expected: float, belief: float) -> float:
        """The mean of the outcomes and of `belief` more that are as `expected`."""
        return (self.good + belief * expected) / (self.total + belief)


class Neighbours:
    """Not thread-safe: who shares it holds a lock."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._outcomes: dict[str, _Outcomes] = {}

    @property
    def actions(self) -> list[str]:
        """Those with outcomes, in the order of their first ones."""
        return list(self._outcomes)

    def add(self, action: str, vectors: Matrix, qualities: Any, weights: Any = 1.0) -> None:
        """Keeps outcomes of `action`: unit vectors [n, dimensions], qualities 0 to 1 [n], and weights 0 to 1 [n] by age."""
        rows = np.atleast_2d(np.asarray(vectors, np.float32))
        count = len(rows)
        held = self._outcomes.get(action)
        if held is None:
            empty = np.zeros(0, np.float32)
            held = self._outcomes[action] = _Outcomes(_new_index(self._dimensions), empty, empty)
        first = len(held.quality)
        held.index.add(np.arange(first, first + count, dtype=np.uint64), rows, threads=1)
        held.quality = np.append(held.quality, np.broadcast_to(np.asarray(qualities, np.float32), count))
        held.weight = np.append(held.weight, np.broadcast_to(np.asarray(weights, np.float32), count))
        held.add_up()
        held.usual = _usual(held.index, rows)

    def estimate(
        self, vector: Matrix | None, expected: Mapping[str, float] | None = None, *, belief: float = 5.0
    ) -> dict[str, Near]:
        """Estimate each action at `vector`; without one, only from the overall means.

        `expected` quality by action (else 0.5) counts as `belief` outcomes in the overall mean.
        """
        return {
            action: self._near(held, vector, (expected or {}).get(action, 0.5), belief)
            for action, held in self._outcomes.items()
        }

    def overall(self, action: str, expected: float, belief: float) -> float:
        """The mean of an action's outcomes and of `belief` more that are as `expected`; that alone without outcomes."""
        held = self._outcomes.get(action)
        return expected if held is None else held.overall(expected, belief)

    def _near(self, held: _Outcomes, vector: Matrix | None, expected: float, belief: float) -> Near:
        overall = held.overall(expected, belief)
        if vector is None:
            return Near(overall, 0.0, overall, 0.0)
        found = held.index.search(vector, min(NEAREST, len(held.quality)), threads=1)
        distances, keys = found.distances, found.keys
        likeness = math.exp(STRANGENESS * min(0.0, 1.0 - float(distances[0]) - held.usual))
        weights = np.exp(SHARPNESS * (distances[0] - distances)) * held.weight[keys]
        total = float(weights.sum())
        mean = (float(weights @ held.quality[keys]) + PRIOR * overall) / (total + PRIOR)
        return Near(mean, total * likeness, overall, likeness, held.total)

    def save(self) -> bytes:
        """Everything, for `load`."""
        packed = io.BytesIO()
        arrays: dict[str, Any] = {"actions": np.array(self.actions, dtype=np.str_)}
        for place, held in enumerate(self._outcomes.values()):
            arrays[f"index{place}"] = np.frombuffer(held.index.save(), np.uint8)
            arrays[f"quality{place}"], arrays[f"weight{place}"] = held.quality, held.weight
            arrays[f"usual{place}"] = np.array(held.usual)
        np.savez(packed, allow_pickle=False, **arrays)
        return packed.getvalue()

    @classmethod
    def load(cls, data: bytes, dimensions: int) -> Self:
        """Reads what `save` gave. Raises ValueError or KeyError for bytes that are not that."""
        found = cls(dimensions)
        with np.load(io.BytesIO(data), allow_pickle=False) as kept:
            for place, action in enumerate(kept["actions"].tolist()):
                index = _new_index(dimensions)
                index.load(kept[f"index{place}"].tobytes())
                quality, weight = kept[f"quality{place}"], kept[f"weight{place}"]
                fits = len(index) == len(quality) == len(weight) and index.ndim == dimensions
                if not fits or not np.isfinite(quality).all() or not np.isfinite(weight).all():
                    raise ValueError("outcomes of different lengths")
                held = found._outcomes[action] = _Outcomes(index, quality, weight)
                held.usual = float(kept[f"usual{place}"])
                held.add_up()
        return found


def _new_index(dimensions: int) -> Any:
    # usearch loaded before onnxruntime makes the latter's import crash the process; the other order is fine.
    with contextlib.suppress(ImportError):
        import onnxruntime  # noqa: F401
    from usearch.index import Index

    return Index(
        ndim=dimensions,
        metric="cos",
        dtype="i8",
        connectivity=8,
        expansion_add=40,
        expansion_search=NEAREST,
    )


def _usual(index: Any, rows: Matrix) -> float:
    """The USUAL percentile of the cosines of `rows`, which are in the index, with the nearest other outcome."""
    if len(index) < 2:
        return 0.0
    some = rows[:: max(1, len(rows) // _SAMPLE)]
    found = index.search(some, 2, threads=1)
    return float(np.percentile(1.0 - np.atleast_2d(found.distances)[:, 1], USUAL))
