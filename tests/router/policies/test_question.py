"""What cannot be decided by likeness is refused with a reason, and an embedder in trouble never fails a request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engines.chat import ChatRequest
from router.digest import user_scope
from router.plan import Ask
from router.policies.question import QuestionEmbedder, QuestionKnobs
from store.records import Vector

OFF = QuestionKnobs(with_tools="off", follow_ups="off", max_characters=100)


class Embedder:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.texts: list[str] = []

    async def embed(self, text: str) -> Vector:
        self.texts.append(text)
        if self.error is not None:
            raise self.error
        return np.ones(4, np.float32) / 2


def ask(messages: list[dict[str, Any]], **fields: Any) -> Ask:
    return Ask(ChatRequest(b"", fields, "m", messages, False, False), "t")


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (ask([{"role": "user", "content": [{"type": "image_url"}]}]), "not_plain_text"),
        (ask([{"role": "tool", "content": "4"}]), "not_plain_text"),
        (ask(said("2+2?"), tools=[{}]), "tools"),
        (ask([{"role": "system", "content": "be brief"}]), "no_question"),
    ],
)
async def test_what_likeness_cannot_decide_is_refused_before_it_costs_anything(
    asked: Ask, reason: str
) -> None:
    embedder = Embedder()
    looked = await QuestionEmbedder(embedder, OFF).embed(asked)
    assert (looked.refused, looked.vector) == (reason, None)
    assert not embedder.texts


async def test_tools_are_looked_at_where_they_are_allowed() -> None:
    looked = await QuestionEmbedder(Embedder(), replace(OFF, with_tools="examples")).embed(
        ask(said("2+2?"), tools=[{}])
    )
    assert not looked.refused
    assert looked.text == "2+2?"


ROUTED = replace(OFF, with_tools="route")
LOOP = [
    {"role": "user", "content": "2+2?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "tool", "tool_call_id": "1", "content": "4"},
]


async def test_routed_requests_with_tools_have_a_scope_of_their_own_in_which_no_example_is() -> None:
    embedder = QuestionEmbedder(Embedder(), ROUTED)
    plain, one, other, loop = [
        await embedder.embed(each)
        for each in (
            ask(said("2+2?")),
            ask(said("2+2?"), tools=[{"name": "a"}]),
            ask(said("2+2?"), tools=[{"name": "b"}]),
            ask(LOOP, tools=[{"name": "a"}]),
        )
    ]
    assert not (plain.refused or one.refused or other.refused or loop.refused)
    assert len({plain.scope, one.scope, other.scope}) == 3
    assert (loop.scope, loop.text) == (one.scope, "2+2?"), "a tool's result is a step of the same task"


async def test_an_end_users_routed_requests_stay_in_their_scope() -> None:
    asked = replace(ask(said("2+2?"), tools=[{"name": "a"}]), end_user="u1")
    found = await QuestionEmbedder(Embedder(), ROUTED).embed(asked)
    assert user_scope(found.scope) == "u1"


async def test_images_beside_tools_are_not_routed() -> None:
    asked = ask([{"role": "user", "content": [{"type": "image_url"}]}], tools=[{"name": "a"}])
    found = await QuestionEmbedder(Embedder(), ROUTED).embed(asked)
    assert found.refused == "not_plain_text"


async def test_a_broken_embedder_is_named_and_gone_without() -> None:
    looked = await QuestionEmbedder(Embedder(RuntimeError("no")), OFF).embed(ask(said("Q")))
    assert (looked.refused, looked.bypassed) == ("no_embedding", ("embed:RuntimeError",))
    assert "embed" in looked.stages_s


async def test_a_long_question_is_cut_before_it_is_embedded() -> None:
    embedder = Embedder()
    await QuestionEmbedder(embedder, OFF).embed(ask(said("x" * 5000)))
    assert [len(t) for t in embedder.texts] == [100]
