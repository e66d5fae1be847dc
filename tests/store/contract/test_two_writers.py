"""Two processes change the same thing at the same moment, both by what they saw before: one does, the other is told."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from store import Store
from store.decisions.reviews import Review, Shares
from store.learned.dials import ChangedMeanwhile, TurnedDials
from store.records import Key
from tests.patience import eventually
from tests.store.contract.conftest import Opening
from tests.store.contract.test_tasks import answered, keep
from tests.store.rows import new_example

Attempt = Callable[[Store], object]
"""Made by one who saw the thing as it was; falsy, or raises, where that is not so any more."""
_ROUNDS = 8
_WAIT_S = 120.0
_SLOT = ("bandit", "a1", "m")


class Told(Exception):
    pass


def unless(seen: Any) -> Callable[[Any], None]:
    def check(now: Any) -> None:
        if now != seen:
            raise Told

    return check


def a_rotation(store: Store, round: int) -> Attempt:
    id = store.keys.create("acme", f"app {round}")[0].id
    check = unless(store.keys.get(id))
    return lambda one: one.keys.rotate(id, check=check, timeout_s=_WAIT_S)


def _seen_version(store: Store, round: int) -> Callable[[Any], None]:
    for n in range(3):
        store.artifacts.publish(*_SLOT, bytes([round, n]), metrics={}, note="")
    return unless(store.artifacts.active(*_SLOT))


def a_roll_back(store: Store, round: int) -> Attempt:
    check = _seen_version(store, round)
    return lambda one: one.artifacts.rollback(*_SLOT, check=check)


def a_use_of_another_version(store: Store, round: int) -> Attempt:
    check, first = _seen_version(store, round), store.artifacts.versions(*_SLOT)[-1].id
    return lambda one: one.artifacts.activate(first, check=check)


def a_use_of_what_is_built_in(store: Store, round: int) -> Attempt:
    check = _seen_version(store, round)
    return lambda one: one.artifacts.retire(*_SLOT, check=check)


def a_label(store: Store, round: int) -> Attempt:
    keep(store, answered(round))
    check, id = unless("teacher"), f"req-{round}"
    return lambda one: one.tasks.answers.label(
        "a1", id, "order", at_s=1.0, check=lambda latest: check(latest.answered_by)
    ).result(_WAIT_S)


def a_verdict(store: Store, round: int) -> Attempt:
    return lambda one: one.outcomes.reviews.note(
        Review("a1", f"req-{round}", 1.0, "ann", "good", 0.2)
    ).result(_WAIT_S)


def a_choice_of_shares(store: Store, round: int) -> Attempt:
    seen = store.outcomes.reviews.shares()[-1]
    shares = Shares(0.5, 0.5, from_s=1.0 + round, user="ann")
    return lambda one: one.outcomes.reviews.choose(shares, check=unless(seen)).result(_WAIT_S)


def an_edit_of_an_example(store: Store, round: int) -> Attempt:
    example = store.examples.add(new_example(round)).result(_WAIT_S)
    texts: dict[str, Any] = {"question": "q", "answer": "a", "embedded_text": "q", "embedding_version": ""}
    check = unless(example.answer)
    return lambda one: one.examples.rewrite(
        "a1", example.id, **texts, vector=None, check=lambda now: check(now.answer)
    ).result(_WAIT_S)


def a_turn_of_dials(store: Store, round: int) -> Attempt:
    now = store.dials.in_force("m")
    turned = TurnedDials("m", float(round), "ann", m=2)
    return lambda one: one.dials.turn(turned, instead_of=now.id if now else 0).result(_WAIT_S)


def an_undo(store: Store, round: int) -> Attempt:
    now = store.dials.turn(TurnedDials("m", float(round), "ann", m=2)).result(_WAIT_S)
    return lambda one: one.dials.take_back("m", "ann", instead_of=now.id).result(_WAIT_S)


@pytest.mark.parametrize(
    "prepare",
    [
        a_rotation,
        a_roll_back,
        a_use_of_another_version,
        a_use_of_what_is_built_in,
        a_label,
        a_verdict,
        a_choice_of_shares,
        an_edit_of_an_example,
        a_turn_of_dials,
        an_undo,
    ],
    ids=lambda prepare: prepare.__name__,
)
def test_one_of_two_at_the_same_moment_does_it_and_the_other_is_told(
    open_store: Opening, prepare: Callable[[Store, int], Attempt]
) -> None:
    stores = open_store(), open_store()
    with ThreadPoolExecutor(len(stores)) as threads:
        for round in range(_ROUNDS):
            attempt, together = prepare(stores[0], round), Barrier(len(stores))

            def done(store: Store, attempt: Attempt = attempt, together: Barrier = together) -> bool:
                together.wait(_WAIT_S)
                try:
                    return bool(attempt(store))
                except (Told, ChangedMeanwhile):
                    return False

            assert sorted(threads.map(done, stores)) == [False, True], round


def test_a_key_is_as_it_was_seen_when_the_grace_of_an_older_secret_has_ended(store: Store) -> None:
    keys = store.keys
    id = keys.create("acme", "app")[0].id
    keys.rotate(id, 0.001)
    assert eventually(lambda: keys.get(id).rotated_until_s is None)
    check = unless(keys.get(id))

    def change(key: Key) -> Key:
        check(key)
        return key

    keys.edit(id, change)
    keys.rotate(id, check=check)
