"""Judges are examined on known pairs before they are paid for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engines.chat import message_text
from engines.engine import EngineInfo
from learning.outcomes.judge_exam import QUESTIONS, Exam, Exams, Known, questions
from learning.outcomes.verdicts import Judge, VerdictRequest
from tests.learning.outcomes.test_judging import Judges

TRAFFIC = [
    Known(({"role": "user", "content": f"What is the label of message {n}?"},), label)
    for n, label in enumerate(["card_arrival", "refund", "top_up", "card_arrival", "exchange_rate", "pin"])
]


def judge() -> Judge:
    made = Judges()
    assert isinstance(made.info, EngineInfo)
    return Judge(made)


def answers(request: VerdictRequest) -> tuple[str, str]:
    text = message_text(request.chat.messages[1].get("content"))
    parts = [text.split(f"<<<{name} ANSWER {request.code}>>>\n")[1] for name in ("FIRST", "SECOND")]
    first, second = (part.split("\n<<<END")[0] for part in parts)
    return first, second


def knowing(request: VerdictRequest, known: Sequence[Known] = TRAFFIC) -> int:
    """What a judge that can judge says."""
    first, second = answers(request)
    asked = message_text(request.chat.messages[1].get("content"))
    own = next(each.answer for each in known if message_text(each.messages[0]["content"]) in asked)
    return 0 if first == second else 2 if first == own else -2


async def examined(says: Callable[[VerdictRequest], int | None]) -> Exam:
    async def ask(request: VerdictRequest) -> int | None:
        return says(request)

    exam = Exam()
    await exam.go_on(judge(), ask, questions(TRAFFIC))
    return exam


def test_the_pairs_are_of_the_traffic_and_both_kinds_occur() -> None:
    asked = questions(TRAFFIC)
    assert len(asked) == QUESTIONS and {each.known.answer for each in asked} <= {t.answer for t in TRAFFIC}
    same = [each.other == each.known.answer for each in asked]
    assert 4 <= sum(same) <= 8 and not any(same[:2])
    assert {each.ours_first for each in asked} == {True, False}
    assert all(each.other in {t.answer for t in TRAFFIC} for each in asked)


@pytest.mark.parametrize("known", [[], TRAFFIC[:1], [TRAFFIC[0], TRAFFIC[3]]])
def test_little_traffic_is_filled_up(known: list[Known]) -> None:
    assert len(questions(known)) == QUESTIONS


async def test_a_judge_that_can_judge_passes() -> None:
    found = await examined(knowing)
    assert (found.asked, found.right, found.unread, found.passed) == (QUESTIONS, QUESTIONS, 0, True)


@pytest.mark.parametrize(
    ("says", "asked"),
    [(lambda r: None, 1), (lambda r: 0, 2), (lambda r: 3, 3), (lambda r: 1, 4), (lambda r: -knowing(r), 2)],
    ids=["unreadable", "never decides", "likes the first", "likes the first a little", "likes the worse"],
)
async def test_one_that_cannot_is_refused_early(says: Any, asked: int) -> None:
    found = await examined(says)
    assert found.refused and not found.passed and found.asked <= asked
    assert "known pairs" in found.told and "a judge may be wrong once" in found.told


async def test_one_wrong_verdict_is_forgiven() -> None:
    found = await examined(lambda r: None if r.number == 5 else knowing(r))
    assert found.passed and found.right == QUESTIONS - 1


async def test_a_judge_is_examined_once_and_again_after_it_could_not_be_read_or_an_hour() -> None:
    at_s, asked = [0.0], []
    ended: list[tuple[str, str, bool]] = []
    exams = Exams(lambda tenant: TRAFFIC, ended=lambda *how: ended.append(how), clock=lambda: at_s[0])

    async def ask(request: VerdictRequest) -> int | None:
        asked.append(request)
        return knowing(request)

    async def never(request: VerdictRequest) -> int | None:
        return None

    assert await exams.passes(judge(), ask, "t", TRAFFIC[0]) and len(asked) == QUESTIONS
    assert await exams.passes(judge(), never, "t", TRAFFIC[0])
    exams.compared("judge", read=False)
    exams.compared("judge", read=True)
    exams.compared("judge", read=False)
    assert exams.passed("judge")
    exams.compared("judge", read=False)
    assert not exams.passed("judge")
    assert not await exams.passes(judge(), never, "t", TRAFFIC[0]) and exams.refuses("judge")
    at_s[0] = 3601.0
    assert not exams.refuses("judge")
    assert await exams.passes(judge(), ask, "u", TRAFFIC[0])
    assert ended == [("t", "judge", True), ("t", "judge", False), ("u", "judge", True)]


async def test_an_exam_goes_on_where_the_money_ended_and_asks_no_more_than_it_may() -> None:
    asked: list[int] = []
    exams = Exams(lambda tenant: TRAFFIC)

    class NoMoney(Exception):
        pass

    async def ask(request: VerdictRequest) -> int | None:
        if len(asked) == 5:
            asked.append(-1)
            raise NoMoney
        asked.append(request.number)
        return knowing(request)

    for _ in range(2):
        assert not await exams.passes(judge(), ask, "t", TRAFFIC[0], most=2)
    assert asked == [0, 1]
    with pytest.raises(NoMoney):
        await exams.passes(judge(), ask, "t", TRAFFIC[0])
    assert await exams.passes(judge(), ask, "u", TRAFFIC[1])
    assert asked == [0, 1, 2, 3, 4, -1, *range(5, QUESTIONS)]
