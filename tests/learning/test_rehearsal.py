"""A rehearsal's arithmetic: which examples are shown, what is close, and what would be offloaded at which loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.asking import NotAnswered, chat_of
from engines.chat import ChatRequest
from learning.rehearsal import ALONE, COPY, Answer, Past, Rehearsed, Tried, offload, rehearse, rows, sentence


def past(number: int, answer: str, scope: str = "s") -> Past:
    vector = np.array([np.cos(number / 10), np.sin(number / 10)], np.float32)
    text = f"question {number}"
    return Past(chat_of({}, [{"role": "user", "content": text}]), text, answer, scope, vector, 0.01)


async def test_the_nearest_stand_before_the_question_and_it_is_not_among_them() -> None:
    asked: list[ChatRequest] = []

    async def ask(chat: ChatRequest) -> Answer:
        asked.append(chat)
        return Answer("label_0", 0.001, 0.5)

    log = [past(number, f"label_{number % 2}") for number in range(9)]
    found = await rehearse(log, ask, questions=9, examples=2)
    assert len(asked) == 27 and [len(tried) for tried in found.ways.values()] == [9, 9, 9, 9]
    for chat in asked[1::3]:
        *shown, own = [turn["content"] for turn in chat.messages if turn["role"] == "user"]
        number = int(own.split()[1])
        distances = [abs(int(text.split()[1]) - number) for text in shown]
        assert own not in shown and max(distances) <= 2 and distances[-1] == 1, (
            "the most similar one stands last"
        )
    assert found.large_usd == pytest.approx(0.09)
    assert rows(found)[0].quality == pytest.approx(5 / 9)


async def test_it_ends_where_nothing_more_can_be_asked_and_other_instructions_give_no_examples() -> None:
    left = iter([Answer("a", 0.0, 0.0)] * 4)

    async def ask(chat: ChatRequest) -> Answer | None:
        return next(left, None)

    log = [past(number, "a", scope="s" if number else "alone") for number in range(6)]
    found = await rehearse(log, ask, questions=6, examples=2)
    assert len(found.similarity) == 1 == len(found.ways[ALONE]) == len(found.ways[COPY])


async def test_a_question_that_is_not_answered_is_left_out() -> None:
    async def ask(chat: ChatRequest) -> Answer:
        if chat.messages[-1]["content"] == "question 2":
            raise NotAnswered("too_large")
        return Answer("a", 0.0, 0.0)

    found = await rehearse([past(number, "a") for number in range(6)], ask, questions=6, examples=2)
    assert [len(tried) for tried in found.ways.values()] == [5] * 4 == [len(found.similarity)] * 4


def of(qualities: list[float]) -> Rehearsed:
    tried = [Tried(quality, 0.001, 1.0) for quality in qualities]
    similarity = [1.0 - n / 100 for n in range(len(tried))]
    return Rehearsed({ALONE: tried, COPY: tried}, similarity, 0.01 * len(tried))


def test_the_loss_over_all_requests_says_how_many_of_the_most_alike_are_offloaded() -> None:
    found = of([1.0] * 50 + [0.0] * 50)
    took = offload(found, ALONE, 0.05)
    assert took.share == pytest.approx(0.55) and took.saved == pytest.approx(0.55 * 0.9)
    assert took.within.low <= took.share <= took.within.high
    assert "55%" in sentence(found, 0.05) and "at 50% everything would, saving 90%" in sentence(found, 0.05)


def test_a_small_engine_that_costs_more_is_said_to() -> None:
    dear = replace(of([1.0] * 30), large_usd=0.015)
    assert sentence(dear, 0.05).endswith(", costing 100% more.")


def test_what_is_always_wrong_takes_nothing() -> None:
    assert "nothing would be offloaded" in sentence(of([0.0] * 30), 0.01)
