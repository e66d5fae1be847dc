"""A file of labels becomes rows, or says line by line why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from learning.training.labelled_requests import BadLabel, engines_by_quality, labelled, row
from router.choosing import features
from store.records import Vector

GOOD = {"prompt": "What is 2 + 3?", "quality": {"small": 0, "large": 1.0}}


def vector_of(text: str) -> Vector:
    return np.ones(4, np.float32) / 2


def test_a_prompt_and_messages_mean_the_same() -> None:
    messages = {"messages": [{"role": "user", "content": GOOD["prompt"]}], "quality": GOOD["quality"]}
    one, two = (row(labelled(line), ("small", "large"), vector_of, at_s=1.0) for line in (GOOD, messages))
    assert one.lesson.qualities == two.lesson.qualities == {0: 0.0, 1: 1.0}
    assert one.lesson.scene.context == two.lesson.scene.context


def test_what_a_label_cannot_know_is_left_out_not_invented() -> None:
    found = row(labelled(GOOD), ("small", "large"), vector_of, at_s=1.0).lesson.scene.context
    assert set(found) == set(features.text_features("")) | {"turns", "prompt_tokens"}


def test_engines_go_by_average_quality_unless_told() -> None:
    lines = [
        labelled({"prompt": "x", "quality": {"b": 0.9, "a": 0.2}}),
        labelled({"prompt": "y", "quality": {"a": 0.4}}),
    ]
    assert engines_by_quality(lines) == ("a", "b")


def test_an_engine_that_is_not_served_teaches_nothing() -> None:
    with pytest.raises(BadLabel):
        row(labelled(GOOD), ("other", "another"), vector_of, at_s=1.0)


@pytest.mark.parametrize(
    "line",
    [
        None,
        [],
        {},
        {"prompt": "x"},
        {"prompt": 3, "quality": {"a": 1}},
        {"messages": [], "quality": {"a": 1}},
        {"messages": ["x"], "quality": {"a": 1}},
        {"prompt": "x", "quality": {}},
        {"prompt": "x", "quality": {"a": 2}},
        {"prompt": "x", "quality": {"a": True}},
        {"prompt": "x", "quality": {"a": float("nan")}},
        {"prompt": "x", "quality": {"a": "1"}},
    ],
)
def test_a_line_that_cannot_be_used_says_so(line: Any) -> None:
    with pytest.raises(BadLabel):
        labelled(line)
