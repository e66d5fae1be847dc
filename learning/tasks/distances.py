"""Measures how far a task's inputs lie from those its student was trained on, now and at its training, for pages.

Of each logged input, also those that the student left to the teacher as too unlike. Read from the store alone.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import structlog
from cachetools import LRUCache

from store.learned.artifacts import Artifacts
from store.records import ArtifactRecord
from store.tasks.answers import TaskAnswers

if TYPE_CHECKING:
    import numpy.typing as npt

log = structlog.get_logger(__name__)

LATEST = 1000
"""Inputs that are looked at."""
_BLOCK = 50
_KEPT = 8


@dataclass(frozen=True, slots=True)
class Distances:
    """Cosine distances, 0 to 2, to the nearest trained input."""

    farthest: float
    """Beyond it an input is not the student's to answer."""
    at_training: float | None
    """The median of held-out inputs; None for a version that was trained before it was noted."""
    now: float
    """The median of the latest block of inputs."""
    beyond: float
    """Share of that block that lies farther than `farthest`."""
    blocks: tuple[tuple[float, float], ...]
    """(time of its last input, Unix seconds; median), of up to 50 inputs each, oldest first."""


@dataclass(frozen=True, slots=True)
class _Trained:
    sample: npt.NDArray[np.float32]
    """(inputs, dimensions)"""
    farthest: float
    embedding_version: str


class DistanceReader:
    """Any thread may call it. Blocks for some tens of milliseconds."""

    def __init__(self, artifacts: Artifacts, answers: TaskAnswers) -> None:
        self._artifacts = artifacts
        self._answers = answers
        self._lock = threading.Lock()
        self._opened: LRUCache[int, _Trained] = LRUCache(_KEPT)

    def of(self, active: ArtifactRecord) -> Distances | None:
        """Those of the version in use; None if it cannot be read, or no input with an embedding is kept."""
        trained = self._trained(active)
        if trained is None:
            return None
        found = self._answers.vectors(active.tenant, active.model, trained.embedding_version, LATEST)
        if not found:
            return None
        inputs = np.stack([vector for _, vector in found]).astype(np.float32)
        distances = 1.0 - (inputs @ trained.sample.T).max(axis=1)
        ends = list(range(len(found), 0, -_BLOCK))[::-1]
        blocks = tuple(
            (found[end - 1][0], float(np.median(distances[max(0, end - _BLOCK) : end]))) for end in ends
        )
        latest = distances[-_BLOCK:]
        noted = active.metrics.get("distance")
        return Distances(
            trained.farthest,
            float(noted) if noted is not None else None,
            blocks[-1][1],
            float((latest > trained.farthest).mean()),
            blocks,
        )

    def close(self) -> None:
        """Lets go of what was read."""
        self._opened.clear()

    def _trained(self, active: ArtifactRecord) -> _Trained | None:
        with self._lock:
            if active.id in self._opened:
                return self._opened[active.id]
        try:
            trained = _read(self._artifacts.read(active))
        except Exception as error:
            # Bytes that are no model make onnx raise errors of several libraries.
            log.error("artifact_broken", kind=active.kind, id=active.id, model=active.model, error=error)
            return None
        with self._lock:
            self._opened[active.id] = trained
        return trained


def _read(data: bytes) -> _Trained:
    """Raises ValueError, and what onnx raises, for what is no student."""
    import onnx
    from onnx import numpy_helper

    from router.tasks.student import Declared

    model = onnx.load_from_string(data)
    declared = Declared.read({prop.key: prop.value for prop in model.metadata_props})
    sample = next((each for each in model.graph.initializer if each.name == "sample"), None)
    if sample is None:
        raise ValueError("no sample of trained inputs in it")
    return _Trained(
        numpy_helper.to_array(sample).T.astype(np.float32), declared.farthest, declared.embedding_version
    )
