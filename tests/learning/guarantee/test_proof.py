"""The gates of every worker learn of every outcome, in the log's order, and come to the same state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from learning.guarantee.proof import ProofFollower
from router.proving.gate import Gate
from router.proving.standing import Action
from store import Store
from tests.store.rows import choice_record, outcome_record

NOTED = {"small/with": 0.5, "similarity": 0.9, "agreement": 1.0}
VECTOR = np.eye(8, dtype=np.float32)[0]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store.open(tmp_path)
    yield made
    made.close()


def note(store: Store, number: int, quality: float = 1.0, **changes: object) -> None:
    """A compared request, whose choice says what was noted of it."""
    choice = {"vector": VECTOR, "scope": "scope", "noted": NOTED} | changes
    store.decisions.choices.record(choice_record(number, model="m", **choice)).result(5)
    outcome = outcome_record(number, quality=quality, source="judge", served=False)
    store.outcomes.note(outcome).result(5)


def following(store: Store, **changes: float) -> tuple[ProofFollower, Gate]:
    gate = Gate(("small",), 0.05)
    return ProofFollower(store.outcomes, store.decisions.choices, {"m": gate}, **changes), gate


@pytest.mark.slow
def test_a_running_worker_is_told_and_says_in_the_log_what_opened(store: Store) -> None:
    follower, gate = following(store, look_every_s=0)
    with capture_logs() as said:
        follower.start()
        try:
            assert follower.caught_up()
            for number in range(140):
                note(store, number)
            assert follower.caught_up()
        finally:
            follower.stop()
    (row,) = gate.summary()
    assert row.open and row.compared == 140
    (line,) = [each for each in said if each["event"] == "offload_opened"]
    assert line["tenant"] == "a1" and line["model"] == "m" and line["lower"] >= 0.9 and line["examples"]


def test_a_worker_that_starts_later_comes_to_the_same_state(store: Store) -> None:
    early, gate = following(store)
    for number in range(40):
        note(store, number, quality=float(number % 5 > 0))
        early.look()
    late, other = following(store)
    late.look()
    assert gate.summary() == other.summary() != []


@pytest.mark.slow
def test_what_is_proven_outlasts_a_restart_after_however_many_other_outcomes(store: Store) -> None:
    early, gate = following(store)
    for number in range(140):
        note(store, number)
    store.outcomes.note_many([outcome_record(n, tenant="b2") for n in range(20_001)]).result(60)
    early.look()
    late, other = following(store)
    late.look()
    assert gate.summary() == other.summary() and other.summary()[0].open


def test_an_outcome_that_overtakes_its_choice_is_counted_once_and_under_that(store: Store) -> None:
    follower, gate = following(store)
    for key in ("first", "second"):
        store.outcomes.note(outcome_record(1, source="user", key=key, quality=0.0)).result(5)
    note(store, 2)
    follower.look()
    assert [row.compared for row in gate.summary()] == [1]
    choice = choice_record(1, model="m", vector=VECTOR, scope="another", noted=NOTED)
    store.decisions.choices.record(choice).result(5)
    for _ in range(2):
        follower.look()
    assert {row.scope: row.compared for row in gate.summary()} == {"scope": 1, "another": 2}
    late, other = following(store)
    late.look()
    assert other.summary() == gate.summary()


def test_feedback_on_an_answer_of_the_small_engine_counts(store: Store) -> None:
    note(store, 1)
    store.outcomes.note(outcome_record(1, source="user", key="thumb", quality=0.0)).result(5)
    follower, gate = following(store)
    follower.look()
    assert gate.summary()[0].compared == 2


def test_what_was_decided_without_a_proof_does_not_count(store: Store) -> None:
    note(store, 1, scope="", noted={})
    note(store, 2, noted={"small/without": 0.5})
    store.outcomes.note(outcome_record(3, source="judge")).result(5)
    follower, gate = following(store)
    follower.look()
    assert gate.summary() == []


def test_a_label_is_no_comparison_with_the_reference(store: Store) -> None:
    note(store, 1)
    store.outcomes.note(outcome_record(1, source="label", key="label")).result(5)
    follower, gate = following(store)
    follower.look()
    assert gate.summary()[0].compared == 1
    assert gate.summary()[0].action == Action("small", with_examples=True)


def test_an_outcome_tells_every_worker_that_the_engine_is_another_one(store: Store) -> None:
    follower, gate = following(store)
    for number in range(30):
        fingerprint = "first" if number < 29 else "second"
        choice = choice_record(number, model="m", vector=VECTOR, scope="scope", noted=NOTED)
        store.decisions.choices.record(choice).result(5)
        detail = f'{{"fingerprint": "{fingerprint}", "length": 0.5}}'
        store.outcomes.note(
            outcome_record(number, source="judge", served=False, quality=1.0, detail=detail)
        ).result(5)
    follower.look()
    assert [row.compared for row in gate.summary()] == [1], "what the first one did proves nothing"
