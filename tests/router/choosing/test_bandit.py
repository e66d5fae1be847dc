"""What a model must never see is refused by name, before it is learnt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from router.choosing.bandit import BanditInput, Lesson, check_lesson, check_scene
from tests.router.choosing.routing_scenes import DIMENSIONS, scene

GOOD = scene(np.random.default_rng(0), 0)


def test_a_good_scene_passes_with_and_without_an_embedding() -> None:
    check_scene(GOOD, DIMENSIONS)
    check_scene(replace(GOOD, vector=None), DIMENSIONS)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda bad: replace(GOOD, context={**GOOD.context, "words": bad}),
        lambda bad: replace(GOOD, vector=np.full(DIMENSIONS, bad, np.float32)),
        lambda bad: replace(GOOD, options=[replace(GOOD.options[0], features={"rank": bad})]),
    ],
)
def test_numbers_that_are_not_finite_are_refused(bad: float, spoil: Callable[[float], object]) -> None:
    with pytest.raises(BanditInput):
        check_scene(spoil(bad), DIMENSIONS)  # type: ignore[arg-type]


def test_a_vector_of_another_embedder_and_a_scene_without_options_are_refused() -> None:
    with pytest.raises(BanditInput):
        check_scene(GOOD, DIMENSIONS + 1)
    with pytest.raises(BanditInput):
        check_scene(replace(GOOD, options=[]), DIMENSIONS)


@pytest.mark.parametrize(
    "lesson",
    [
        Lesson(GOOD, {0: 1.5}),
        Lesson(GOOD, {0: float("nan")}),
        Lesson(GOOD, {2: 1.0}),
        Lesson(GOOD, {0: 1.0}, probability=0.0),
        Lesson(GOOD, {0: 1.0}, probability=float("nan")),
        Lesson(GOOD, {0: 1.0}, weight=-1.0),
    ],
)
def test_a_lesson_that_cannot_be_is_refused(lesson: Lesson) -> None:
    with pytest.raises(BanditInput):
        check_lesson(lesson, DIMENSIONS)
