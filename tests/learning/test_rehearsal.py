"""A rehearsal's arithmetic: which examples are shown, what is close, and what would be offloaded at which loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.asking import NotAnswered, chat_of
from engines.chat import ChatRequest
from learning.rehearsal.arms import (
    ALONE,
    COPY,
    Answer,
    Past,
    Question,
    Rehearsed,
    Tried,
    rehearse,
)
from learning.rehearsal.figures import offload, rows, sentence
from learning.rehearsal.foreseen import gate_opens, student_opens
from learning.rehearsal.students import STUDENT, Predicted, in_order, with_student


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
    assert len(found.questions) == 1 == len(found.ways[ALONE]) == len(found.ways[COPY])


async def test_a_question_that_is_not_answered_is_left_out() -> None:
    async def ask(chat: ChatRequest) -> Answer:
        if chat.messages[-1]["content"] == "question 2":
            raise NotAnswered("too_large")
        return Answer("a", 0.0, 0.0)

    found = await rehearse([past(number, "a") for number in range(6)], ask, questions=6, examples=2)
    assert [len(tried) for tried in found.ways.values()] == [5] * 4 == [len(found.questions)] * 4


def of(qualities: list[float]) -> Rehearsed:
    tried = [Tried(quality, 0.001, 1.0, agreed=quality) for quality in qualities]
    questions = [Question(past(n, "label_1"), ((1.0 - n / 100, "label_1"),)) for n in range(len(tried))]
    return Rehearsed({ALONE: tried, COPY: tried}, questions)


def test_the_loss_over_all_requests_says_how_many_of_the_most_alike_are_offloaded() -> None:
    found = of([1.0] * 50 + [0.0] * 50)
    took = offload(found, ALONE, 0.05)
    assert took.share == pytest.approx(0.55) and took.saved == pytest.approx(0.55 * 0.9)
    assert took.within.low <= took.share <= took.within.high
    assert "55%" in sentence(found, 0.05) and "; at 20% 70% (" in sentence(found, 0.05)


def test_a_small_engine_that_costs_more_is_said_to() -> None:
    cheap = of([1.0] * 30)
    questions = [replace(one, past=replace(one.past, usd=0.0005)) for one in cheap.questions]
    assert sentence(replace(cheap, questions=questions), 0.05).endswith(", costing 100% more.")


def test_what_is_always_wrong_takes_nothing() -> None:
    assert "nothing would be offloaded" in sentence(of([0.0] * 30), 0.01)


def tickets(count: int) -> list[Past]:
    """Of three kinds, each with a vector near its kind's own, and its word in the question."""
    kinds = ["card_lost", "card_late", "top_up"]
    made = []
    for n in range(count):
        vector = np.full(8, 0.1, np.float32)
        vector[n % 3] = 1.0
        vector[3 + n % 5] += 0.2
        text = f"{kinds[n % 3].replace('_', ' ')}, ticket {n}"
        chat = chat_of({}, [{"role": "user", "content": text}])
        made.append(Past(chat, text, kinds[n % 3], "s", vector / np.linalg.norm(vector), 0.01))
    return made


async def test_the_student_learns_from_the_other_folds_alone() -> None:
    log = tickets(90)

    async def ask(chat: ChatRequest) -> Answer:
        return Answer("no idea", 0.0, 0.0)

    found = with_student(await rehearse(log, ask, questions=30, examples=2), log)
    assert {row.way: row.quality for row in rows(found)}[STUDENT] == 1.0
    assert "The student would take 100%" in sentence(found, 0.05)
    without = with_student(await rehearse(log[:40], ask, questions=30, examples=2), log[:40])
    assert STUDENT not in without.ways, "too few answers to call it a task"


def test_the_students_promise_is_told_the_log_in_its_order() -> None:
    said = in_order(tickets(480), every=80)
    assert said[0] is None and said[-1] is not None and said[-1].version == 5
    foreseen = student_opens(said, 0.05, every=80, times=4)
    assert 0.1 < foreseen.share < 0.9, "there must be room first"
    wrong = [Predicted("label_1", 0.9, agreed=False, version=1)] * 200
    assert student_opens(wrong, 0.05, every=50, times=4).share == 0.0


def test_the_gate_is_told_what_was_rehearsed() -> None:
    ways = ALONE, COPY
    right, wrong = of([1.0] * 40), of([0.0] * 40)
    opened = gate_opens(right, ways, 0.05, requests=2000, times=4)
    assert 0.3 < opened.share < 0.9 and opened.within.low <= opened.share <= opened.within.high
    assert gate_opens(wrong, ways, 0.05, requests=400, times=4).share == 0.0
    unknown = [replace(one, agreed=None) for one in right.ways[ALONE] if one]
    assert (
        gate_opens(
            Rehearsed({ALONE: unknown, COPY: unknown}, right.questions), ways, 0.05, requests=200
        ).share
        == 0.0
    )


def test_what_people_said_counts_both_ways() -> None:
    """Every second recorded answer is wrong, and a person said so: what is always right loses nothing against it."""
    right = [Tried(float(n % 2), 0.0, 0.0, float(n % 2), -float(n % 2 == 0)) for n in range(40)]
    asked = [
        Question(replace(past(n, "label_1"), score=float(n % 2), correction="label_0"), ((0.9, "label_1"),))
        for n in range(40)
    ]
    found = Rehearsed({ALONE: right, COPY: right}, asked)
    assert gate_opens(found, (ALONE, COPY), 0.05, requests=2000, told_share=0.5, times=4).share > 0.1
    silent = [replace(one, past=replace(one.past, score=None)) for one in asked]
    assert (
        gate_opens(replace(found, questions=silent), (ALONE, COPY), 0.05, requests=400, times=4).share == 0.0
    )
