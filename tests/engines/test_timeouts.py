"""How long each phase may last, alone and beside another engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engines.timeouts import Phases, asks_for_reasoning
from tests import knobs
from tests.engines.asking import chat

DEFAULTS = knobs.timeouts()


def test_alone_an_engine_has_as_long_as_a_client_waits() -> None:
    assert DEFAULTS.phases(chat()) == Phases(5, 600, 120, 600)


def test_beside_another_engine_it_has_less() -> None:
    beside = replace(chat(stream=True), beside_stand_in=True)
    assert DEFAULTS.phases(beside) == Phases(5, 30, 120, 300)
    assert DEFAULTS.phases(replace(beside, continuable=True)).gap_s == 30


def test_what_is_set_holds_for_both() -> None:
    limits = replace(DEFAULTS, first_data_s=7.0, gap_s=8.0, answer_s=9.0)
    beside = replace(chat(reasoning_effort="high"), beside_stand_in=True, continuable=True)
    assert limits.phases(chat()) == limits.phases(beside) == Phases(5, 7, 8, 9)


def test_beside_another_engine_half_the_clients_own_time_is_the_most() -> None:
    asked = replace(chat(), client_timeout_s=20.0)
    assert DEFAULTS.phases(asked) == Phases(5, 600, 120, 600)
    assert DEFAULTS.phases(replace(asked, beside_stand_in=True)) == Phases(5, 10, 10, 10)


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
        ({"reasoning": "?", "thinking": 1, "chat_template_kwargs": []}, False),
    ],
)
def test_a_model_that_is_to_reason_may_be_silent_for_longer(fields: dict[str, Any], asks: bool) -> None:
    request = replace(chat(stream=True, **fields), beside_stand_in=True)
    assert request.chat is not None and asks_for_reasoning(request.chat) is asks
    assert DEFAULTS.phases(request).first_data_s == (180 if asks else 30)
