"""How many tokens a request may take, before it is asked."""

from __future__ import annotations

from typing import Any

import pytest

from engines.chat import Usage
from engines.errors import RequestError
from gateway.limits.expected import (
    MOST_TOKENS,
    Expectations,
    answers_asked,
    check_numbers,
    estimated_input,
    most_output,
)


def learnt(expectations: Expectations, outputs: list[int], prompt: int = 50) -> None:
    for output in outputs:
        expectations.learn("m", 40, 1, Usage(prompt, output))


@pytest.mark.parametrize(
    ("api", "fields", "most"),
    [
        ("chat", {}, None),
        ("chat", {"max_tokens": 5}, 5),
        ("chat", {"max_tokens": 5, "max_completion_tokens": 7}, 7),
        ("chat", {"max_tokens": 7, "max_completion_tokens": 5}, 7),
        ("chat", {"max_output_tokens": 9}, None),
        ("responses", {"max_output_tokens": 9, "max_tokens": 1}, 9),
        ("messages", {"max_tokens": 9, "max_completion_tokens": 1}, 9),
        ("completions", {"max_tokens": 9, "max_completion_tokens": 1}, 9),
        ("embeddings", {"max_tokens": 9}, None),
        ("chat", {"max_tokens": 10**12}, MOST_TOKENS),
        ("chat", {"max_tokens": 10**40}, MOST_TOKENS),
        ("chat", {"max_tokens": -1}, None),
        ("chat", {"max_tokens": True}, None),
        ("chat", {"max_tokens": "5"}, None),
        ("chat", {"max_tokens": None}, None),
    ],
)
def test_the_most_output_that_a_request_wants(api: str, fields: dict[str, Any], most: int | None) -> None:
    assert most_output(fields, api) == most


@pytest.mark.parametrize(
    ("api", "fields", "answers"),
    [
        ("chat", {}, 1),
        ("chat", {"n": 3}, 3),
        ("chat", {"n": -3}, 1),
        ("completions", {"prompt": "x", "n": 2, "best_of": 20}, 20),
        ("completions", {"prompt": ["x", "y", "z"], "n": 2}, 6),
        ("completions", {"prompt": [1, 2, 3]}, 1),
        ("completions", {"prompt": [[1], [2]]}, 2),
        ("chat", {"n": 10**40}, MOST_TOKENS),
    ],
)
def test_how_many_answers_an_engine_has_to_write(api: str, fields: dict[str, Any], answers: int) -> None:
    assert answers_asked(fields, api) == answers


@pytest.mark.parametrize("given", [-1, 1.5, 1e5, "100000", True, [1]])
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "n"])
def test_what_only_some_engines_take_for_a_number_is_refused(name: str, given: Any) -> None:
    with pytest.raises(RequestError):
        check_numbers({name: given}, "chat")
    check_numbers({name: None}, "chat")
    check_numbers({"max_output_tokens": given}, "chat")


def test_one_request_whose_input_was_not_in_its_body_does_not_make_all_others_dear() -> None:
    expectations = Expectations()
    expectations.learn("m", 10, 1, Usage(200_000, 5))
    assert expectations.expected("m", 400, {}, "chat").input_tokens <= 401


def test_a_text_that_looks_like_a_file_is_counted() -> None:
    text = "data:image/png;base64," + "a b " * 50_000
    said = {"messages": [{"role": "user", "content": text}, {"content": [{"type": "text", "text": text}]}]}
    assert estimated_input(400_000, said) == 100_000
    assert estimated_input(200_000, {"input": [{"file_data": "data:text/plain;base64," + "A" * 9}]}) == 50_000


def test_output_is_what_the_request_says_else_what_was_rare_lately_else_a_cautious_number() -> None:
    expectations = Expectations()
    assert expectations.expected("m", 400, {"max_tokens": 10, "n": 3}, "chat").output_tokens == 30
    assert expectations.expected("m", 400, {}, "chat").output_tokens == 4096
    learnt(expectations, [100] * 150 + [900] * 1)
    assert 100 <= expectations.expected("m", 400, {}, "chat").output_tokens <= 900
    learnt(expectations, [100] * 200)
    assert expectations.expected("m", 400, {}, "chat").output_tokens == 100
    assert expectations.expected("another", 400, {}, "chat").output_tokens == 4096


def test_an_input_that_was_underestimated_is_not_again() -> None:
    expectations = Expectations()
    first = expectations.expected("m", 400, {}, "chat")
    assert first.estimate == 100 and first.input_tokens > 100
    for _ in range(30):
        expectations.learn("m", 100, 1, Usage(300, 5))
    assert expectations.expected("m", 400, {}, "chat").input_tokens >= 300


def test_nothing_is_learnt_from_estimates() -> None:
    expectations = Expectations()
    for _ in range(30):
        expectations.learn("m", 100, 1, Usage(300, 5, estimated=True))
    assert expectations.expected("m", 400, {}, "chat").output_tokens == 4096


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
