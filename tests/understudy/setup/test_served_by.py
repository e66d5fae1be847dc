"""What of a configuration is told apart in the keys of remembered answers."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.settings.config import AnyEngine
from understudy.settings.file import parse_config
from understudy.setup.served_by import digest, ignored_fields, unknown_servers

ENGINE = {"base_url": "https://api.openai.com/v1", "model": "gpt", "api_key": "none"}


def engine(**changes: Any) -> AnyEngine:
    config = {"engines": {"e": ENGINE | changes}, "models": {"m": {"engines": ["e"]}}}
    return parse_config(config).engines["e"]


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "gpt-new"},
        {"model": None},
        {"base_url": "https://api.openai.com/v2"},
        {"kind": "vllm"},
        {"kind": "azure", "api_version": "2024-10-21"},
        {"advanced": {"headers": {"x-provider": "a"}}},
    ],
)
def test_whatever_changes_an_answer_changes_the_digest(changes: dict[str, Any]) -> None:
    assert digest([engine(**changes)]) != digest([engine()])


def test_the_value_of_an_added_header_counts_and_is_not_told() -> None:
    one, other = (engine(advanced={"headers": {"X-Provider": value}}) for value in ("secret-a", "secret-b"))
    assert digest([one]) != digest([other])
    assert digest([one]) == digest([engine(advanced={"headers": {"x-provider": "secret-a"}})])
    assert "secret" not in digest([one])


def test_prices_limits_and_keys_do_not_count() -> None:
    other = engine(api_key="sk-1", price={"input_usd_per_mtok": 1}, max_in_flight=3, context_tokens=100)
    assert digest([other]) == digest([engine()])


def test_the_order_of_engines_counts() -> None:
    large, small = engine(), engine(model="mini")
    assert digest([small, large]) != digest([large, small])


def test_metadata_changes_nothing_only_where_openai_or_anthropic_itself_answers() -> None:
    claude = engine(kind="anthropic", base_url="https://api.anthropic.com")
    assert ignored_fields([claude]) == ignored_fields([claude, engine()]) == {"metadata"}
    elsewhere = engine(base_url="https://proxy.example/api.openai.com/v1")
    assert ignored_fields([engine(), engine(model="mini")]) == {"metadata"}
    assert ignored_fields([engine(), elsewhere]) == frozenset()
    assert ignored_fields([engine(base_url="https://api.openai.com.evil.example/v1")]) == frozenset()


@pytest.mark.parametrize(
    ("changes", "unknown"),
    [
        ({}, False),
        ({"base_url": "https://me.openai.azure.com", "kind": "azure"}, False),
        ({"base_url": "https://openrouter.ai/api/v1"}, False),
        ({"base_url": "http://127.0.0.1:8000/v1"}, False),
        ({"base_url": "http://[::1]:8000/v1"}, False),
        ({"base_url": "http://10.1.2.3/v1"}, False),
        ({"base_url": "http://localhost:8000/v1"}, False),
        ({"base_url": "https://models.example.com/v1", "kind": "vllm"}, False),
        ({"base_url": "https://gateway.example.com/v1"}, True),
        ({"base_url": "https://api.openai.com.example.com/v1"}, True),
        ({"base_url": "https://x.elb.amazonaws.com/v1"}, True),
        ({"base_url": "http://8.8.8.8/v1"}, True),
        ({"base_url": "https://notapi.openai.com/v1"}, True),
    ],
)
def test_who_may_heed_headers_that_nobody_here_knows(changes: dict[str, Any], unknown: bool) -> None:
    assert unknown_servers([engine(**changes)]) is unknown
    assert unknown_servers([engine(), engine(**changes)]) is unknown
