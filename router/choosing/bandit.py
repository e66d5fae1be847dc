"""The seam of what learns: how good would each way to answer be? Whoever weighs that against cost asks through here.

A bandit estimates quality only. Cost and latency are known or measured, so nothing is gained by learning them, and the
dial, the load and the exploration can change without anything learnt becoming wrong (docs/explanation/routing.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

if TYPE_CHECKING:
    from store.records import Vector


class BanditError(Exception):
    """The bandit cannot say, or cannot be loaded. A request can be routed without it."""


class BanditBroken(BanditError):
    """These bytes are no bandit: truncated, altered, or of another kind."""


class BanditOutdated(BanditError):
    """A bandit of other features or of another embedder: what it learnt means nothing here."""


class BanditInput(BanditError):
    """A scene or lesson with numbers that are not finite, or of the wrong shape."""


class BanditMissing(BanditError):
    """Vowpal Wabbit is not installed."""


@dataclass(frozen=True, slots=True)
class Option:
    """A way to answer, as the bandit sees it."""

    engine: str
    with_examples: bool
    features: Mapping[str, float]
    """Of router.choosing.features.action_features."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A request to be routed."""

    vector: Vector | None
    """Its embedding; None when the embedder was late. Estimates are worse without."""
    context: Mapping[str, float]
    """Of router.choosing.features.context_features."""
    options: Sequence[Option]
    """2 to 16, engines small to large."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A scene and what is known of what came of it."""

    scene: Scene
    qualities: Mapping[int, float]
    """Index of an option to its quality, 0..1. One entry is bandit feedback; all of them, full information."""
    probability: float = 1.0
    """With which it came to be known that option's quality (decision times judging). 1 for labels."""
    weight: float = 1.0
    """Importance, 0..1: old lessons count less where the world drifts."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the bandit expects."""

    qualities: tuple[float, ...]
    """Per option, 0..1."""
    familiarity: float
    """0: nothing like this was ever learnt from. 1: it was seen many times."""


class Bandit(Protocol):
    """Safe to use from several threads. Same bytes, same estimates."""

    @property
    def version(self) -> str: ...

    @property
    def learned(self) -> int:
        """Lessons it was taught, all in all."""
        ...

    def estimate(self, scene: Scene) -> Estimate:
        """Raises BanditInput."""
        ...

    def learn(self, lessons: Sequence[Lesson]) -> int:
        """Takes them in, in order, and returns how many there were. Raises BanditInput before anything is learnt."""
        ...

    def save(self) -> bytes:
        """Everything that was learnt, framed with what it can be used with."""
        ...

    @classmethod
    def load(cls, data: bytes) -> Self:
        """Raises BanditBroken, BanditOutdated, BanditMissing."""
        ...


def check_scene(scene: Scene, dimensions: int | None) -> None:
    """Raises BanditInput on what a model must never see. `dimensions` None accepts any vector."""
    if not scene.options:
        raise BanditInput("a scene needs options")
    if not _finite(scene.context):
        raise BanditInput("the context holds a number that is not finite")
    if not all(_finite(option.features) for option in scene.options):
        raise BanditInput("an option holds a number that is not finite")
    vector = scene.vector
    if vector is None:
        return
    if vector.ndim != 1 or (dimensions is not None and len(vector) != dimensions):
        raise BanditInput(f"the vector has shape {vector.shape}; {dimensions} numbers are needed")
    # One sum instead of a look at each number: it is finite only if all are.
    if not math.isfinite(float(np.dot(vector, vector))):
        raise BanditInput("the vector holds a number that is not finite")


def check_lesson(lesson: Lesson, dimensions: int | None) -> None:
    """As check_scene, and for what came of it."""
    check_scene(lesson.scene, dimensions)
    if not 0.0 < lesson.probability <= 1.0:
        raise BanditInput(f"a probability of {lesson.probability}")
    if not 0.0 <= lesson.weight <= 1.0:
        raise BanditInput(f"a weight of {lesson.weight}")
    for index, quality in lesson.qualities.items():
        if not 0 <= index < len(lesson.scene.options):
            raise BanditInput(f"a quality for option {index} of {len(lesson.scene.options)}")
        if not 0.0 <= quality <= 1.0:
            raise BanditInput(f"a quality of {quality}")


def _finite(numbers: Mapping[str, float]) -> bool:
    return math.isfinite(math.fsum(numbers.values())) if numbers else True
