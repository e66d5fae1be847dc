"""A plan refuses what cannot be run, and never shows a key."""

from __future__ import annotations

from typing import Any

import pytest

from loadtest.plan import LoadPlan, Target, WorkloadSpec


@pytest.mark.parametrize(
    ("url", "path", "port", "host"),
    [
        ("http://127.0.0.1:8000", "/v1/chat/completions", 8000, "127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1", "/v1/chat/completions", 8000, "127.0.0.1:8000"),
        ("https://example.org/openai/v1", "/openai/v1/chat/completions", 443, "example.org"),
        ("http://[::1]:9", "/v1/chat/completions", 9, "[::1]:9"),
    ],
)
def test_a_base_url_may_or_may_not_end_in_its_version(url: str, path: str, port: int, host: str) -> None:
    target = Target(url)
    assert (target.path, target.port, target.host_header) == (path, port, host)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:80", "ftp://x", "http://", "http://u:p@x", "http://x?key=1", "http://x:99999"]
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        Target(url)


def test_a_key_in_a_header_does_not_show() -> None:
    plan = LoadPlan(Target("http://x", headers=(("authorization", "Bearer sk-secret"),)))
    assert "sk-secret" not in repr(plan)


@pytest.mark.parametrize(
    "wrong",
    [
        {"duration_s": 0},
        {"timeout_s": -1},
        {"warmup_s": 30.0},
        {"processes": 0},
        {"processes": 8, "max_in_flight": 4},
        {"speed": 0},
        {"closed_users": 9999},
    ],
)
def test_impossible_plans_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        LoadPlan(Target("http://x"), **wrong)


@pytest.mark.parametrize(
    "wrong", [{"repeat_share": 0.6, "paraphrase_share": 0.6}, {"prefix_count": 0}, {"token_scale": 0}]
)
def test_impossible_workloads_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        WorkloadSpec(**wrong)
