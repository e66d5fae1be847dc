"""What a clock stamped that was ahead is kept no longer than anything else."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import pytest

from store import Store
from tests.store.contract.test_feedback import said
from tests.store.contract.test_texts import texts
from tests.store.rows import choice_record, new_example, outcome_record, request_record

NOW, AHEAD = 5000.0, 9e9
Trim = Callable[[Store, float], Future[int]]


def requests(store: Store) -> Trim:
    store.decisions.requests.record(request_record(1, started_at_s=AHEAD)).result(30)
    return lambda store, before_s: store.decisions.requests.trim(before_s)


def request_texts(store: Store) -> Trim:
    store.decisions.texts.keep(texts(1, at_s=AHEAD)).result(30)
    return lambda store, before_s: store.decisions.texts.trim(before_s, 2**40)


def choices(store: Store) -> Trim:
    store.decisions.choices.record(choice_record(1, at_s=AHEAD)).result(30)
    return lambda store, before_s: store.decisions.choices.trim(before_s)


def outcomes(store: Store) -> Trim:
    store.outcomes.note(outcome_record(1, at_s=AHEAD)).result(30)
    return lambda store, before_s: store.outcomes.trim(before_s)


def feedback(store: Store) -> Trim:
    store.outcomes.feedback.give(said(1, at_s=AHEAD), [], most=3).result(30)
    return lambda store, before_s: store.outcomes.feedback.trim(before_s)


KEPT = (requests, request_texts, choices, outcomes, feedback)


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.__name__)
def test_what_is_stamped_ahead_counts_from_the_present(store: Store, kept: Callable[[Store], Trim]) -> None:
    trim = kept(store)
    assert store.decisions.clamp_stamps(NOW).result(30) == 1
    assert store.decisions.clamp_stamps(NOW).result(30) == 0
    assert trim(store, NOW).result(30) == 0
    assert trim(store, NOW + 1).result(30) == 1


def test_questions_put_aside_under_a_clock_that_was_ahead_go_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.examples.make_private("a1").result(30)
    with monkeypatch.context() as wrong:
        wrong.setattr("time.time", lambda: AHEAD)
        store.examples.admit(new_example(1)).result(30)
    assert store.decisions.clamp_stamps(NOW).result(30) == 1
    assert store.examples.private.trim(NOW + 1).result(30) == 1


def test_what_two_right_clocks_may_stamp_stays_as_it_is(store: Store) -> None:
    log = store.decisions.requests
    for number, ahead_s in enumerate((-100.0, 0.0, 59.0)):
        log.record(request_record(number, started_at_s=NOW + ahead_s)).result(30)
    assert store.decisions.clamp_stamps(NOW).result(30) == 0
    assert [record.started_at_s for record in log.recent()] == [NOW + 59.0, NOW, NOW - 100.0]
