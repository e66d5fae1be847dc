"""How engines stand: what workers say, for as long as it is to be believed, and what an operator drained."""

from __future__ import annotations

import time
from dataclasses import replace

from store import Store
from store.jobs.engine_states import EngineStateRow, EngineTest
from tests.patience import eventually


def state(worker: str, engine: str, at_s: float, in_flight: int = 0) -> EngineStateRow:
    return EngineStateRow(
        *(worker, engine, at_s, in_flight, 0, 8, 0.1, "closed", False, 5, 1, 0.2, None, None, None)
    )


def test_a_workers_last_word_is_believed_for_some_seconds(store: Store) -> None:
    states, now_s = store.jobs.engine_states, time.time()
    states.say([state("w1", "large", now_s - 100), state("w1", "small", now_s - 1)]).result(30)
    states.say([state("w2", "small", now_s, 3)]).result(30)
    assert [(row.worker, row.in_flight) for row in states.now(now_s)] == [("w1", 0), ("w2", 3)]
    states.say([state("w1", "small", now_s, 7)]).result(30)
    assert [row.in_flight for row in states.now(now_s)] == [7, 3]
    states.gone("w1").result(30)
    assert [row.worker for row in states.now(now_s)] == ["w2"]


def test_a_drained_engine_stays_so_until_it_is_restored(store: Store) -> None:
    states = store.jobs.engine_states
    before = states.drained_generation()
    assert states.drain("large", "ann", "maintenance").result(30)
    assert not states.drain("large", "bob", "again").result(30)
    (drained,) = store.jobs.engine_states.drained()
    assert (drained.engine, drained.by_user, drained.reason) == ("large", "ann", "maintenance")
    assert eventually(lambda: states.drained_generation() != before)
    assert states.restore("large").result(30) and not states.restore("large").result(30)
    assert states.drained() == []


def test_a_drained_engine_has_the_stand_in_that_was_named_last(store: Store) -> None:
    states = store.jobs.engine_states
    assert states.drain("large", "ann", "maintenance").result(30)
    before = states.drained_generation()
    assert states.drain("large", "bob", "again", stand_in="small").result(30)
    assert not states.drain("large", "bob", "again", stand_in="small").result(30)
    assert eventually(lambda: states.drained_generation() != before)
    (drained,) = states.drained()
    assert (drained.by_user, drained.reason, drained.stand_in) == ("ann", "maintenance", "small")
    assert states.drain("large", "bob", "").result(30) and states.drained()[0].stand_in == ""


def test_one_replica_is_drained_by_itself_and_restored_with_its_engine(store: Store) -> None:
    states = store.jobs.engine_states
    assert states.drain("large", "ann", "", "a:1").result(30) and states.drain(
        "large", "ann", "", "b:1"
    ).result(30)
    assert states.restore("large", "a:1").result(30) and not states.restore("large", "a:1").result(30)
    assert [(one.engine, one.replica) for one in states.drained()] == [("large", "b:1")]
    assert states.restore("large").result(30) and states.drained() == []


def test_the_health_check_is_told_with_a_state(store: Store) -> None:
    now_s = time.time()
    row = replace(
        state("w1", "large", now_s),
        probed_at_s=now_s - 1,
        probe_ms=3.5,
        probe_error="no",
    )
    store.jobs.engine_states.say([row]).result(30)
    assert store.jobs.engine_states.now(now_s) == [row]


def test_errors_by_kind_outlive_the_worker_that_counted_them(store: Store) -> None:
    states, now_s = store.jobs.engine_states, 1_000_000 * 600.0 + 10
    states.add_errors(
        {("large", "connect"): 2, ("large", "timeout"): 1, ("small", "server"): 1}, now_s
    ).result(30)
    states.add_errors({("large", "timeout"): 3}, now_s + 600).result(30)
    states.gone("w1").result(30)
    assert states.errors(now_s) == {"large": {"timeout": 4, "connect": 2}, "small": {"server": 1}}
    assert states.errors(now_s + 600) == {"large": {"timeout": 3}}
    states.add_errors({("large", "connect"): 1}, now_s + 9 * 86_400).result(30)
    assert states.errors(0.0) == {"large": {"connect": 1}}, "what is older than a week is dropped"


def test_the_latest_test_of_each_replica_is_kept(store: Store) -> None:
    states = store.jobs.engine_states
    first = EngineTest("large", "a:1", 1.0, "ann", True, "answered", 2.5, 30.0, 0.001)
    others = [
        replace(first, replica="b:1", good=False, health_ms=None, answer_ms=None),
        replace(first, engine="a"),
    ]
    states.note_tests([first, *others]).result(30)
    again = replace(first, at_s=2.0, by_user="bob", said="no answer")
    states.note_tests([again]).result(30)
    assert states.tests() == [others[1], again, others[0]]
