"""Which headers tell requests apart, and which requests want an answer of their own."""

from __future__ import annotations

from typing import Any

import pytest
from multidict import CIMultiDict

from gateway.same_request import SameRequest, wants_variety

Pairs = list[tuple[str, str]]


def key(*headers: tuple[str, str], others: bool = False, same: SameRequest | None = None) -> bytes:
    return (same or SameRequest()).key(b"otherwise", CIMultiDict(headers), others=others)


@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize(
    "headers",
    [
        [("OpenAI-Organization", "a")],
        [("openai-project", "a")],
        [("Anthropic-Beta", "a")],
        [("x-api-version", "a")],
        [("X-Goog-Anything", "a")],
        [("x-auth-token", "a")],
        [("X-Tenant-Id", "a")],
        [("x-user-id", "a")],
        [("X-Forwarded-Email", "a")],
        [("X-MS-CLIENT-PRINCIPAL-ID", "a")],
        [("X-Of-Settings", "a")],
        [("openai-x", "1"), ("openai-x", "2")],
        [("openai-x", "2"), ("openai-x", "1")],
        [("openai-y", "1"), ("openai-x", "2")],
    ],
)
def test_a_header_that_is_known_to_change_answers_or_says_who_asks_counts(
    headers: Pairs, others: bool
) -> None:
    same = SameRequest(always=["x-of-settings"])
    known = [("openai-x", "1")], [("openai-x", "1\nopenai-x:2")], []
    assert key(*headers, others=others, same=same) not in [
        key(*each, others=others, same=same) for each in known
    ]


@pytest.mark.parametrize(
    "name", ["x-portkey-provider", "x-anything-of-next-year", "Accept-Language", "CF-Ray"]
)
def test_another_header_counts_only_where_nobody_knows_what_it_does(name: str) -> None:
    assert key((name, "a"), others=True) != key(others=True)
    assert key((name, "a")) == key()


def test_case_and_order_of_names_do_not_count_but_the_order_of_values_does() -> None:
    assert key(("OpenAI-B", "1"), ("openai-a", "2")) == key(("openai-A", "2"), ("openai-b", "1"))
    assert key(("openai-a", "1"), ("openai-a", "2")) != key(("openai-a", "2"), ("openai-a", "1"))


def test_path_query_and_credentials_count() -> None:
    same = SameRequest()
    told = {same.endpoint("/a", CIMultiDict()), same.endpoint("/a?x", CIMultiDict())}
    assert same.endpoint("/a", CIMultiDict({"Authorization": "Bearer 1"})) not in told and len(told) == 2


@pytest.mark.parametrize("others", [True, False])
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
        "Idempotency-Key",
        "X-Goog-Api-Client",
        "User-Agent",
        "Accept",
        "Content-Length",
        "Cache-Control",
    ],
)
def test_a_header_that_only_tells_of_the_way_does_not_count(name: str, others: bool) -> None:
    assert key((name, "1"), others=others) == key(others=others)


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
