"""Which conversation a request belongs to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engines.chat import ChatRequest
from gateway.keepers.session import session_name, session_of
from router.asked import Controls
from router.turns.naming import named_by
from store.decisions.session_ids import is_named
from tests.finished import finished

SECRET = b"s" * 32


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, ""),
        ({"metadata": {"session_id": " s1 "}, "prompt_cache_key": "p"}, "s1"),
        ({"metadata": {"conversation_id": "c1"}}, "c1"),
        ({"metadata": {"user_id": "user_a_account_b_session_9f"}}, "9f"),
        ({"metadata": {"user_id": "ann"}}, ""),
        ({"litellm_session_id": "l1"}, "l1"),
        ({"conversation": {"id": "conv_1"}}, "conv_1"),
        ({"conversation": "conv_2"}, "conv_2"),
        ({"prompt_cache_key": "p"}, "p"),
        ({"session_id": "s2"}, "s2"),
        ({"metadata": "x", "prompt_cache_key": 7}, ""),
    ],
)
def test_a_body_names_its_conversation_in_one_of_several_ways(fields: dict[str, Any], name: str) -> None:
    assert named_by(None, fields) == name


def chat(*turns: str, **fields: Any) -> ChatRequest:
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(turns)]
    return ChatRequest(
        b"", fields, "m", [{"role": "system", "content": "Be brief."}, *messages], False, False
    )


def test_the_header_comes_first_and_every_turn_has_the_same() -> None:
    asked = finished(chat("Q?", metadata={"session_id": "s1"}), Controls(session="header")).asked
    assert session_name(asked) == "header" and is_named(session_of(SECRET, asked))
    first = session_of(SECRET, finished(chat("Q?")).asked)
    assert first == session_of(SECRET, finished(chat("Q?", "A.", "And?")).asked) and not is_named(first)
    assert first != session_of(SECRET, finished(chat("R?", "A.", "And?")).asked)
    assert first != session_of(SECRET, finished(chat("Q?", user="bob")).asked)


def test_what_nothing_tells_from_others_has_none() -> None:
    asked = finished(chat()).asked
    assert session_of(SECRET, replace(asked, chat=replace(asked.chat, messages=[]))) == ""
