"""The interface of a bandit: what it is given, what it estimates, what it learns from and the errors it raises.

A bandit estimates the quality of each way to answer a request, and nothing else. Cost and latency are known or measured,
so they are not learnt: the preference, the load bias and the exploration can change while everything learnt stays valid
(docs/explanation/routing.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from store.records import Vector


class BanditError(Exception):
    """The bandit cannot estimate, or cannot be loaded. A request can be routed without it."""


class BanditBroken(BanditError):
    """The bytes are not a bandit: truncated, altered, or of another format."""


class BanditOutdated(BanditError):
    """The bandit was trained with other features or another embedder, so its estimates are meaningless here."""


class BanditInput(BanditError):
    """A scene or lesson holds numbers that are not finite, or has the wrong shape."""


class BanditMissing(BanditError):
    """Vowpal Wabbit is not installed."""


@dataclass(frozen=True, slots=True)
class Option:
    """An action as the bandit sees it: an engine, with or without examples."""

    engine: str
    with_examples: bool
    features: Mapping[str, float]
    """By name, as router.choosing.features.action_features returns them."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A request to be routed: the context and the actions of one bandit decision."""

    vector: Vector | None
    """The request's embedding; None when the embedder was late, which makes estimates worse."""
    context: Mapping[str, float]
    """By name, as router.choosing.features.context_features returns them."""
    options: Sequence[Option]
    """2 to 16 actions, engines from small to large."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A scene and the observed quality of one or more of its options."""

    scene: Scene
    qualities: Mapping[int, float]
    """Quality, 0..1, by index of the option. One entry is bandit feedback; an entry for every option is full information."""
    probability: float = 1.0
    """Probability that this quality was observed: that of the decision times that of judging it. 1 for labels."""
    weight: float = 1.0
    """Importance, 0..1: where traffic drifts, older lessons count less."""


UNKNOWN = 0.5
"""Standard deviation of a quality of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected quality of every option of a scene, and how sure that is."""

    qualities: tuple[float, ...]
    """One per option, 0..1."""
    deviations: tuple[float, ...]
    """Standard deviation of each of them: 0.5 if nothing is known of an action, less with every outcome near by."""
    strangeness: float = 0.0
    """0 for a request like those learnt from, towards 1 the less like any of them it is: then nothing of it is sure."""

    def surely(self, index: int) -> float:
        """The quality of an option, less its variance and that of a request unlike any: what is not known lowers it."""
        doubt = self.deviations[index] ** 2 + UNKNOWN**2 * self.strangeness
        return max(0.0, self.qualities[index] - doubt)


class Bandit(Protocol):
    """Estimates quality per option. Thread-safe; the same artifact gives the same estimates."""

    @property
    def version(self) -> str:
        """Identifies what was learnt; logged with every decision."""
        ...

    @property
    def learned(self) -> int:
        """Number of lessons learnt from since the bandit was created."""
        ...

    def estimate(self, scene: Scene) -> Estimate:
        """Returns the expected quality of every option. Raises BanditInput."""
        ...


def check_scene(scene: Scene, dimensions: int | None) -> None:
    """Raises BanditInput if the scene has no options, a wrong vector shape or numbers that are not finite.

    `dimensions` None accepts a vector of any length.
    """
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
    """Raises BanditInput as `check_scene` does, and for a probability, weight, index or quality out of range."""
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
