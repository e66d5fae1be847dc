"""How long each phase may last, alone and beside another engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engines.timeouts import FirstDataTimes, Phases, asks_for_reasoning
from tests import knobs
from tests.engines.asking import chat

DEFAULTS = knobs.timeouts()


def test_alone_an_engine_has_as_long_as_a_client_waits() -> None:
    assert DEFAULTS.phases(chat()) == Phases(5, 600, 600, 600)
    assert DEFAULTS.phases(replace(chat(stream=True), continuable=True)) == Phases(5, 600, 600, 600)


def test_alone_it_has_longer_if_the_client_waits_longer() -> None:
    for told_s, has_s in ((20.0, 600), (1800.0, 1800), (1e6, 3600)):
        assert DEFAULTS.phases(replace(chat(), client_timeout_s=told_s)) == Phases(5, has_s, has_s, has_s)


def test_beside_another_engine_a_stream_has_less_and_a_plain_answer_all_of_it() -> None:
    beside = replace(chat(stream=True), beside_stand_in=True)
    assert DEFAULTS.phases(beside) == Phases(5, 60, 600, 600)
    assert DEFAULTS.phases(replace(beside, continuable=True)) == Phases(5, 60, 120, 600)


@pytest.mark.parametrize(
    ("needed_s", "reasons", "limit_s"),
    [(1, False, 60), (30, False, 90), (250, False, 600), (1, True, 300), (90, True, 300), (120, True, 360)],
)
def test_beside_another_engine_the_first_data_has_three_times_what_this_engine_lately_needed(
    needed_s: float, reasons: bool, limit_s: float
) -> None:
    lately = FirstDataTimes()
    for _ in range(5):
        lately.took("m", needed_s)
        lately.took("another", 590)
    fields = {"reasoning_effort": "high"} if reasons else {}
    beside = replace(chat(stream=True, **fields), beside_stand_in=True, continuable=True)
    assert DEFAULTS.phases(beside, lately) == Phases(5, limit_s, 120, 600)
    assert DEFAULTS.phases(chat(stream=True), lately).first_data_s == 600


def test_what_is_set_holds_for_both() -> None:
    limits = replace(DEFAULTS, first_data_s=7.0, gap_s=8.0, answer_s=9.0)
    beside = replace(chat(reasoning_effort="high"), beside_stand_in=True, continuable=True)
    assert limits.phases(chat()) == limits.phases(beside) == Phases(5, 7, 8, 9)


def test_beside_another_engine_half_the_clients_own_time_is_left_to_it_until_something_was_said() -> None:
    asked = replace(chat(stream=True), client_timeout_s=20.0, beside_stand_in=True, continuable=True)
    assert DEFAULTS.phases(asked) == Phases(5, 10, 120, 600)
    assert replace(DEFAULTS, first_data_s=15.0).phases(asked) == Phases(5, 15, 120, 600)


_REASON = (
    *("o1", "o3-mini", "openai/o4-mini", "gpt-5", "gpt-5.1-codex", "gpt-oss:20b", "deepseek-reasoner"),
    *("deepseek-ai/DeepSeek-R1", "QwQ-32B", "Qwen/Qwen3-32B", "magistral-medium", "kimi-k2-thinking"),
    *("phi-4-reasoning", "grok-4", "grok-3-mini", "gemini-2.5-pro", "gemini-3-flash", "my-o3"),
)
_DO_NOT = (
    "gpt-4o",
    "gpt-4.1",
    "deepseek-chat",
    "Qwen/Qwen2.5-7B-Instruct",
    "grok-3",
    "gemini-2.0-flash",
    "m",
)


@pytest.mark.parametrize("name", [*_REASON, *_DO_NOT])
def test_models_that_are_known_to_reason_are_known_by_either_name(name: str) -> None:
    limit_s = 300 if name in _REASON else 60
    plain = chat(stream=True)
    named = chat(stream=True, model=name)
    assert DEFAULTS.phases(replace(named, beside_stand_in=True)).first_data_s == limit_s
    by_client = replace(plain, as_asked=named.chat, beside_stand_in=True)
    assert DEFAULTS.phases(by_client).first_data_s == limit_s


@pytest.mark.parametrize(
    ("fields", "asks"),
    [
        ({}, False),
        ({"reasoning_effort": "low"}, True),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning": {"effort": "high"}}, True),
        ({"reasoning": {"max_tokens": 100}}, True),
        ({"reasoning": {"enabled": False}}, False),
        ({"reasoning": {"effort": "none"}}, False),
        ({"thinking": {"type": "enabled"}}, True),
        ({"thinking": {"type": "disabled"}}, False),
        ({"chat_template_kwargs": {"enable_thinking": True}}, True),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"enable_thinking": True}, True),
        ({"enable_thinking": False}, False),
        ({"output_config": {"effort": "high"}}, True),
        ({"reasoning": "?", "output_config": 1, "thinking": 1, "chat_template_kwargs": []}, False),
    ],
)
def test_a_model_that_is_to_reason_may_be_silent_for_longer(fields: dict[str, Any], asks: bool) -> None:
    request = replace(chat(stream=True, **fields), beside_stand_in=True)
    assert request.chat is not None and asks_for_reasoning(request.chat) is asks
    assert DEFAULTS.phases(request).first_data_s == (300 if asks else 60)


def test_what_streams_lately_needed_is_known_by_model_but_for_one_in_a_hundred() -> None:
    times = FirstDataTimes()
    assert times.needed_s("m") == 0
    for seconds in (1.0, 7.0, 2.0):
        times.took("m", seconds)
    times.took("other", 50.0)
    assert (times.needed_s("m"), times.needed_s("other")) == (7.0, 50.0)
    for _ in range(99):
        times.took("m", 1.0)
    times.took("m", 300.0)
    assert times.needed_s("m") == 1.0


def test_as_many_models_are_kept_as_an_engine_can_have() -> None:
    times = FirstDataTimes()
    for number in range(70):
        times.took(str(number), 1.0)
    assert (times.needed_s("0"), times.needed_s("69")) == (0, 1)
