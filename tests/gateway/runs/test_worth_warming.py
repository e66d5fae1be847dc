"""When a prefix is computed early, and what it is judged by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engines.engine import EngineLoad
from gateway.runs.worth_warming import Facts, PrefillPace, StepTimes, has_room, worth_warming
from workflows.definition import Definition, StepSpec

GOOD = Facts(
    None,
    certain=True,
    hosted=False,
    prefix_tokens=1000,
    cached_tokens=0,
    missing_s=2.0,
    prefill_s=0.5,
    room=True,
)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "warm"),
        ({"wanted": False}, "refused"),
        ({"certain": False}, "uncertain"),
        ({"hosted": True}, "hosted"),
        ({"hosted": True, "wanted": True}, "hosted"),
        ({"prefix_tokens": 255}, "short"),
        ({"prefix_tokens": 256}, "warm"),
        ({"cached_tokens": 745}, "cached"),
        ({"cached_tokens": 744}, "warm"),
        ({"missing_s": 0.5}, "soon"),
        ({"missing_s": 0.0, "wanted": True}, "soon"),
        ({"room": False}, "busy"),
    ],
)
def test_what_is_worth_it(changes: dict[str, Any], verdict: str) -> None:
    assert worth_warming(replace(GOOD, **changes), 256) == verdict


@pytest.mark.parametrize(
    ("load", "coming", "room"),
    [
        (EngineLoad(), 0, True),
        (EngineLoad(open=False), 0, False),
        (EngineLoad(queued=1), 0, False),
        (EngineLoad(kv_use=0.9), 0, False),
        (EngineLoad(in_flight=3, capacity=10), 4, True),
        (EngineLoad(in_flight=4, capacity=10), 4, False),
        (EngineLoad(in_flight=0, capacity=1), 0, True),
        (EngineLoad(in_flight=1, capacity=1), 0, False),
    ],
)
def test_an_engine_has_room_where_nobody_has_to_wait(load: EngineLoad, coming: int, room: bool) -> None:
    assert has_room(load, coming) is room


def test_the_pace_of_prefill_is_what_was_seen() -> None:
    pace = PrefillPace()
    assert pace.seconds("a", 2000) == 1.0
    pace.took("a", 100, 1.0)
    assert pace.seconds("a", 200) == 2.0 and pace.seconds("b", 2000) == 1.0
    for _ in range(50):
        pace.took("a", 1000, 1.0)
    assert pace.seconds("a", 1000) == pytest.approx(1.0, rel=0.05)


def workflow(*steps: StepSpec, chained: bool = False) -> Definition:
    named = {step.name: step for step in steps}
    return Definition("w", {}, named, chained, steps[-1].name, frozenset(), "v", {})


MESSAGES = ({"role": "user", "content": "x"},)
FOUND = StepSpec("found", "search", over=("queries",))
TOP = StepSpec("top", "rerank", over=("found",))
QUERIES = StepSpec("queries", "chat", messages=MESSAGES)
ANSWER = StepSpec("answer", "chat", messages=MESSAGES, reads=("top",))


def test_how_long_a_step_is_off_follows_the_longest_way_to_it() -> None:
    times, definition = StepTimes(), workflow(QUERIES, FOUND, TOP, ANSWER)
    done: set[str] = set()
    guessed = times.until(definition, "top", done.__contains__, {})
    assert guessed == pytest.approx(1.04)
    times.took("v", "queries", 4.0, 4.0)
    times.took("v", "found", 0.5, 0.1)
    times.took("v", "top", 0.25, 0.25)
    assert times.until(definition, "top", done.__contains__, {}) == 4.75
    assert times.until(definition, "top", done.__contains__, {"queries": 3.0}) == 1.75
    assert times.until(definition, "top", done.__contains__, {"queries": 30.0}) == 0.75
    done.add("queries")
    assert times.until(definition, "top", done.__contains__, {}) == 0.75
    done |= {"found", "top"}
    assert times.until(definition, "top", done.__contains__, {}) == 0.0
    assert times.each_s(definition, "found") == 0.1
    times.took("v", "found", 1.5, 0.1)
    assert times.whole_s(definition, "found") == pytest.approx(0.7)


def test_under_a_chain_a_step_also_waits_for_the_one_before() -> None:
    side = StepSpec("side", "chat", messages=MESSAGES)
    later = StepSpec("later", "transform", over=("q",))
    assert StepTimes().until(workflow(side, later), "later", lambda _: False, {}) == pytest.approx(0.02)
    chained = workflow(side, later, chained=True)
    assert StepTimes().until(chained, "later", lambda _: False, {}) == pytest.approx(1.02)
