"""Each rule refuses for its own reason; an answer that breaks none is admitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engines.chat import ChatRequest
from router.admission import RULES, Finished, refusal


def chat(content: Any = "Q?", **fields: Any) -> ChatRequest:
    return ChatRequest(
        b"", fields, "m", [{"role": "user", "content": content}], stream=False, include_usage=False
    )


GOOD = Finished(
    chat=chat(),
    status=200,
    complete=True,
    opted_out=False,
    from_reference=True,
    question="Q?",
    answer="A.",
    finish_reason="stop",
    choices=1,
    calls_tools=False,
    max_characters=100,
)
BREAKS: dict[str, dict[str, Any]] = {
    "opted_out": {"opted_out": True},
    "error": {"status": 429},
    "incomplete": {"complete": False},
    "not_the_reference": {"from_reference": False},
    "several_choices": {"choices": 3},
    "tool_calls": {"chat": chat(tools=[{}])},
    "not_plain_text": {"chat": chat([{"type": "image_url"}])},
    "cut_short": {"finish_reason": "length"},
    "empty": {"answer": "  "},
    "too_long": {"answer": "x" * 101},
}


def test_a_good_answer_is_admitted() -> None:
    assert refusal(GOOD) is None


@pytest.mark.parametrize("reason", BREAKS)
def test_a_broken_rule_refuses_and_says_which(reason: str) -> None:
    assert refusal(replace(GOOD, **BREAKS[reason])) == reason


def test_every_rule_is_tested() -> None:
    assert {name for name, _ in RULES} == set(BREAKS)
