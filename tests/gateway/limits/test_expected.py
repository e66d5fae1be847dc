"""How many tokens a request may take, before it is asked."""

from __future__ import annotations

from typing import Any

import pytest

from engines.chat import Usage
from gateway.limits.expected import MOST_TOKENS, Expectations, estimated_input, most_output


def learnt(expectations: Expectations, outputs: list[int], prompt: int = 50) -> None:
    for output in outputs:
        expectations.learn("m", 40, 1, Usage(prompt, output))


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({}, None),
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 7}, 7),
        ({"max_output_tokens": 9}, 9),
        ({"max_tokens": 10**12}, MOST_TOKENS),
        ({"max_tokens": 10**40}, MOST_TOKENS),
        ({"max_tokens": -1}, None),
        ({"max_tokens": True}, None),
        ({"max_tokens": "5"}, None),
        ({"max_tokens": None}, None),
    ],
)
def test_the_most_output_that_a_request_wants(fields: dict[str, Any], most: int | None) -> None:
    assert most_output(fields) == most


def test_output_is_what_the_request_says_else_what_was_rare_lately_else_a_cautious_number() -> None:
    expectations = Expectations(4096)
    assert expectations.expected("m", 400, {"max_tokens": 10, "n": 3}).output_tokens == 30
    assert expectations.expected("m", 400, {}).output_tokens == 4096
    learnt(expectations, [100] * 150 + [900] * 1)
    assert 100 <= expectations.expected("m", 400, {}).output_tokens <= 900
    learnt(expectations, [100] * 200)
    assert expectations.expected("m", 400, {}).output_tokens == 100
    assert expectations.expected("another", 400, {}).output_tokens == 4096


def test_an_input_that_was_underestimated_is_not_again() -> None:
    expectations = Expectations(4096)
    first = expectations.expected("m", 400, {})
    assert first.estimate == 100 and first.input_tokens > 100
    for _ in range(30):
        expectations.learn("m", 100, 1, Usage(300, 5))
    assert expectations.expected("m", 400, {}).input_tokens >= 300


def test_nothing_is_learnt_from_estimates() -> None:
    expectations = Expectations(4096)
    for _ in range(30):
        expectations.learn("m", 100, 1, Usage(300, 5, estimated=True))
    assert expectations.expected("m", 400, {}).output_tokens == 4096


def test_a_picture_in_the_body_is_not_counted_by_its_letters() -> None:
    picture = "data:image/png;base64," + "A" * 400_000
    content = [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": "What is it?"}]
    fields = {"messages": [{"role": "user", "content": content}]}
    assert 1500 < estimated_input(400_200, fields) < 2000


def test_deep_bodies_are_walked_without_recursion() -> None:
    deep: Any = "x" * 20_000
    for _ in range(50_000):
        deep = [deep]
    assert estimated_input(20_000, {"x": deep}) == 5000
