"""Scenes with a known truth: two topics, two engines; the small one is right on the first topic only."""

from __future__ import annotations

import numpy as np

from router.choosing import features
from router.choosing.bandit import Lesson, Option, Scene
from router.choosing.features import Examples, Request

DIMENSIONS = 16
TOPICS = np.eye(DIMENSIONS, dtype=np.float32)[:4]


def options(*engines: str) -> list[Option]:
    """One per engine, small to large, without examples."""
    last = len(engines) - 1
    return [
        Option(
            engine,
            False,
            features.action_features(
                is_reference=place == last,
                rank=place / last,
                with_examples=False,
                relative_cost=(0.1, 1.0)[place == last],
                relative_latency=0.5,
                utilisation=0.0,
                healthy=True,
            ),
        )
        for place, engine in enumerate(engines)
    ]


def context(text: str = "What is it?") -> dict[str, float]:
    """As the chooser makes it, at a dial that looks at quality alone."""
    return features.context_features(
        Request(text),
        Examples(),
        quality_alone=0.5,
        quality_with=0.5,
        weights=(1.0, 0.0, 0.0),
    )


def scene(rng: np.random.Generator, topic: int, engines: tuple[str, ...] = ("small", "large")) -> Scene:
    """A request about `topic`."""
    vector = TOPICS[topic] + rng.normal(0, 0.1, DIMENSIONS).astype(np.float32)
    return Scene((vector / np.linalg.norm(vector)).astype(np.float32), context(), options(*engines))


def lessons(seed: int, count: int, *, swapped: bool = False) -> list[Lesson]:
    """One outcome each, drawn evenly: the small engine is right on topic 0, the large one on 0 and 1."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        topic, chosen = int(rng.integers(2)), int(rng.integers(2))
        quality = float(topic == 0 or (chosen == 0 if swapped else chosen == 1))
        found.append(Lesson(scene(rng, topic), {chosen: quality}, probability=0.5))
    return found
