"""What is computed beside the pages: each question once, nobody waits, and what ends with the process ends soon."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from admin.computing import Computations, ReportProgress, Stopped, TooMuchAsked


class Slow:
    """A computation that goes on when a test lets it."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.began = threading.Event()
        self.looked = threading.Event()
        self.asked: list[str] = []
        self.stopped = False

    def __call__(self, question: str, told: ReportProgress) -> dict[str, Any]:
        self.asked.append(question)
        told("half of it", 0.5)
        self.began.set()
        try:
            while not self.goes_on.wait(0.01):
                told("half of it", 0.5)
                self.looked.set()
        except Stopped:
            self.stopped = True
            raise
        if question == "bad":
            raise ValueError("nothing to tell")
        return {"answer": question}


@contextmanager
def computing(slow: Slow, **options: Any) -> Iterator[Computations[str]]:
    made = Computations(slow, "test", **options)
    try:
        yield made
    finally:
        slow.goes_on.set()
        made.close()


def test_a_question_is_answered_at_once_and_computed_once_however_often_it_is_asked() -> None:
    slow = Slow()
    with computing(slow) as computations:
        assert computations.state("a").computing
        assert slow.began.wait(60)
        known = [computations.state("a") for _ in range(20)]
        assert all(each.computing and (each.doing, each.done) == ("half of it", 0.5) for each in known)
        before = computations.changes
        slow.looked.clear()
        assert slow.looked.wait(60) and computations.changes == before, "nothing is new, and no page is woken"
        slow.goes_on.set()
        known_now = computations.wait_for("a", 60)
        assert known_now.result == {"answer": "a"} and not known_now.computing
        assert computations.state("a").result is known_now.result and slow.asked == ["a"]
        assert computations.changes > before and not computations.busy


def test_what_is_pushed_out_while_it_is_computed_is_not_computed_twice() -> None:
    slow = Slow()
    with computing(slow) as computations:
        computations.state("a")
        assert slow.began.wait(60)
        computations._kept.clear()
        assert computations.state("a").computing
        slow.goes_on.set()
        assert computations.wait_for("a", 60).result and slow.asked == ["a"]


def test_an_old_answer_is_shown_while_a_new_one_is_computed_and_only_for_somebody_who_looks() -> None:
    slow, now = Slow(), [1000.0]
    slow.goes_on.set()
    with computing(slow, fresh_s=60.0, clock=lambda: now[0]) as computations:
        computations.state("a")
        first = computations.wait_for("a", 60)
        now[0] += 61.0
        assert computations.state("a", begin=False) is first
        slow.goes_on.clear()
        anew = computations.state("a")
        assert anew.computing and anew.result is first.result and anew.at_s == 1000.0
        slow.goes_on.set()
        assert computations.wait_for("a", 60).at_s == 1061.0
        assert slow.asked == ["a", "a"]


def test_a_failure_is_told_and_not_tried_again_at_every_look() -> None:
    slow = Slow()
    slow.goes_on.set()
    with computing(slow) as computations:
        computations.state("bad")
        known = computations.wait_for("bad", 60)
        assert str(known.problem) == "nothing to tell" and known.result is None
        assert computations.state("bad") is known and slow.asked == ["bad"]


def test_too_many_questions_at_once_are_refused_but_never_those_under_way_or_known() -> None:
    slow = Slow()
    with computing(slow) as computations:
        for question in "abcd":
            computations.state(question)
        with pytest.raises(TooMuchAsked):
            computations.state("e")
        assert computations.state("d").computing
        assert not computations.state("e", begin=False).computing


def test_closing_stops_what_goes_on_at_its_next_step_and_begins_nothing_more() -> None:
    slow = Slow()
    computations = Computations(slow, "test")
    computations.state("a")
    computations.state("b")
    assert slow.began.wait(60)
    computations.close()
    assert slow.stopped and slow.asked == ["a"]
    assert not computations.state("c").computing
    assert all(thread.name[:4] != "test" or not thread.is_alive() for thread in threading.enumerate())
