"""A computation in a process of its own: its result, its problems, and an end whatever happens."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from admin.computing import ReportProgress, Stopped
from admin.own_process import ComputationDied, in_own_process


class Odd(Exception):
    """Cannot be read from its pickle: it needs two words and has one text."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def compute(question: str, report: ReportProgress) -> dict[str, Any]:
    report("half of it", 0.5)
    match question:
        case "refused":
            raise LookupError("nothing to tell")
        case "odd":
            raise Odd("one", "two")
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "for ever":
            time.sleep(3600)
    print("this is no part of the result")
    return {"answer": question, "process": os.getpid(), "command": sys.orig_argv}


def heard(into: list[tuple[str, float]]) -> ReportProgress:
    return lambda doing, done: into.append((doing, done))


def test_it_is_computed_elsewhere_and_says_how_far_it_is() -> None:
    told: list[tuple[str, float]] = []
    result = in_own_process(compute)("a secret", heard(told))
    assert result["answer"] == "a secret" and result["process"] != os.getpid()
    assert not any("secret" in word for word in result["command"]), "every account of the machine can read it"
    assert set(told) == {("beginning", 0.0), ("half of it", 0.5)} and told[-1][1] == 0.5
    with pytest.raises(ProcessLookupError):
        os.kill(result["process"], 0)


@pytest.mark.parametrize(
    ("question", "kind", "text"),
    [
        ("refused", LookupError, "nothing to tell"),
        ("odd", RuntimeError, "Odd: one two"),
        ("killed", ComputationDied, "ended with -9"),
    ],
)
def test_what_went_wrong_there_is_raised_here(question: str, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        in_own_process(compute)(question, heard([]))


def test_it_is_ended_when_nobody_may_wait_any_more(children: Callable[[], set[int]]) -> None:
    def stopped(doing: str, done: float) -> None:
        if done == 0.5:
            raise Stopped

    before = children()
    with pytest.raises(Stopped):
        in_own_process(compute)("for ever", stopped)
    assert children() == before


@pytest.fixture
def children() -> Callable[[], set[int]]:
    """The ids of this process's children, those that ended unseen too."""

    def found() -> set[int]:
        path = f"/proc/self/task/{os.getpid()}/children"
        if not os.path.exists(path):
            pytest.skip("no /proc here")
        with open(path) as listed:
            return set(map(int, listed.read().split()))

    return found
