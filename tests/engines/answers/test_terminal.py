"""How answers end and fail, told by one table for all APIs."""

from __future__ import annotations

from typing import Any

import pytest

from engines.answers.terminal import choices_of, ended_choices, fails, meaning_of


@pytest.mark.parametrize(
    ("said", "means"),
    [
        (None, ""),
        ("stop", "stop"),
        ("STOP", "stop"),
        ("eos_token", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
    ],
)
def test_why_a_model_stopped_is_said_as_a_chat_completion_says_it(said: Any, means: str) -> None:
    assert meaning_of(said) == means


@pytest.mark.parametrize(
    ("event", "failed"),
    [
        ({"error": {"message": "busy"}}, True),
        ({"type": "response.failed"}, True),
        ({"choices": [{"finish_reason": "error"}]}, True),
        ({"choices": [{"finish_reason": "stop"}]}, False),
        ({"type": "response.completed"}, False),
        ([1], False),
    ],
)
def test_which_events_tell_of_a_failure(event: Any, failed: bool) -> None:
    assert fails(event) is failed


def test_choices_without_an_index_are_the_first() -> None:
    event = {"choices": [{"finish_reason": "stop"}, {"index": 1, "finish_reason": "length"}, {"index": 2}, 3]}
    assert ended_choices(event) == {0, 1} and len(choices_of(event)) == 3
    assert choices_of({"choices": None}) == [] and choices_of(3) == []
