"""A given pair is digested as a served one is, and named without telling what is in it."""

from __future__ import annotations

from typing import Any

import pytest

from learning.bank.demonstrations import NotAdmitted, as_chat, content_id, digested
from router.digest import question, scope
from understudy.settings.memory import MemorySettings
from understudy.setup.examples import admission

CHAIN = admission(MemorySettings())
SECRET = b"s" * 32


def fields(text: str = "What is a lighthouse for?", **more: Any) -> dict[str, Any]:
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    return {"model": "gpt-4o", "messages": turns, **more}


def test_question_and_scope_are_those_of_a_served_request() -> None:
    chat = as_chat(fields(response_format={"type": "json_object"}))
    digest = digested(chat, "To warn ships.", CHAIN, "demonstration")
    assert (digest.question, digest.scope) == (question(chat.messages), scope(chat))
    assert digest.answer == "To warn ships." and digest.completion_tokens > 0


@pytest.mark.parametrize(
    ("text", "answer", "reason"),
    [
        ("What is it?", " ", "empty"),
        ("What is it?", "x" * 8001, "too_long"),
        ("My key is AKIAIOSFODNN7EXAMPLQ and wJalrXUtnFEMIK7MDENGbPxRfiCYzzzzzzzzzzzz", "Fine.", "secrets"),
    ],
)
def test_what_admission_refuses_is_refused_and_never_quoted(text: str, answer: str, reason: str) -> None:
    with pytest.raises(NotAdmitted) as refused:
        digested(as_chat(fields(text)), answer, CHAIN, "import")
    assert refused.value.reason == reason
    assert "AKIA" not in str(refused.value)


def test_personal_data_is_not_in_what_is_kept() -> None:
    digest = digested(
        as_chat(fields("Write to ann.miller@gmail.com about the lighthouse please.")),
        "A letter about the lighthouse, as you asked.",
        CHAIN,
        "demonstration",
    )
    assert "ann.miller" not in digest.question + digest.embedded_text


def test_a_name_differs_with_anything_that_matters_and_with_the_secret() -> None:
    chat = as_chat(fields())
    names = {
        content_id(SECRET, chat, "A."),
        content_id(SECRET, chat, "B."),
        content_id(SECRET, as_chat(fields("Other?")), "A."),
        content_id(SECRET, as_chat(fields(response_format={"type": "text"})), "A."),
        content_id(b"t" * 32, chat, "A."),
    }
    assert len(names) == 5
    assert content_id(SECRET, as_chat(fields(temperature=1.5)), "A.") in names
