"""Which headers tell requests apart, and which requests want an answer of their own."""

from __future__ import annotations

from typing import Any

import pytest
from multidict import CIMultiDict

from gateway.same_request import endpoint, wants_variety

Pairs = list[tuple[str, str]]


def told(*headers: tuple[str, str], target: str = "/chat/completions") -> str:
    return endpoint(target, CIMultiDict(headers))


@pytest.mark.parametrize(
    "headers",
    [
        [("OpenAI-Organization", "a")],
        [("openai-project", "a")],
        [("x-portkey-provider", "a")],
        [("x-anything-of-next-year", "a")],
        [("Accept-Language", "de")],
        [("x-api-key", "a")],
        [("x-b", "1"), ("x-a", "2")],
        [("x-a", "1"), ("x-a", "2")],
        [("x-a", "2"), ("x-a", "1")],
    ],
)
def test_a_header_that_can_change_an_answer_counts(headers: Pairs) -> None:
    others = [told(), told(("x-a", "1")), told(("x-a", "1x-a:2")), told(target="/other")]
    assert told(*headers) not in others


def test_case_and_order_of_names_do_not_count_but_the_order_of_values_does() -> None:
    assert told(("X-B", "1"), ("x-a", "2")) == told(("x-A", "2"), ("x-b", "1"))
    assert told(("x-a", "1"), ("x-a", "2")) != told(("x-a", "2"), ("x-a", "1"))


@pytest.mark.parametrize(
    "name",
    [
        "X-Request-Id",
        "traceparent",
        "X-Stainless-Lang",
        "x-forwarded-for",
        "x-b3-traceid",
        "x-datadog-trace-id",
        "X-Amzn-Trace-Id",
        "x-client-request-id",
        "User-Agent",
        "Accept",
        "Content-Length",
        "Cache-Control",
    ],
)
def test_a_header_that_only_tells_of_the_way_does_not_count(name: str) -> None:
    assert told((name, "1")) == told()


@pytest.mark.parametrize(
    ("fields", "varied"),
    [
        ({}, False),
        ({"temperature": None, "n": None}, False),
        ({"temperature": 0}, False),
        ({"temperature": -0.0, "n": 3}, False),
        ({"temperature": 0.01}, True),
        ({"temperature": 1, "seed": 0}, False),
        ({"temperature": 1, "seed": None}, True),
        ({"temperature": "hot"}, True),
        ({"temperature": float("nan")}, True),
        ({"n": 1}, False),
        ({"n": 2}, True),
        ({"n": 2, "seed": 5}, False),
        ({"top_p": 0.5}, False),
    ],
)
def test_who_wants_variety(fields: dict[str, Any], varied: bool) -> None:
    assert wants_variety(fields) is varied
