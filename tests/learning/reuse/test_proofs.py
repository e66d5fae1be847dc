from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from learning.reuse.decision import Explore, Reuse
from learning.reuse.ledger import ReuseSettings
from learning.reuse.proofs import Proofs
from store.answers.semantic_observations import SemanticObservations, SemanticScope
from store.sqlite.database import Database

SETTINGS = ReuseSettings(0.2, audit_share=0.5)
SCOPE = SemanticScope("a1", "mini/1", SETTINGS.policy)
ENTRY, NEAR = 7, 0.97


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "a.db")
    yield database
    database.close()


def worker(db: Database) -> Proofs:
    return Proofs(SCOPE, SETTINGS, SemanticObservations(db))


def earn(proofs: Proofs, rng: random.Random) -> int:
    """Comparisons that all agree, until one is not needed any more; gives how many."""
    for compared in range(300):
        decision = proofs.decide(ENTRY, NEAR, rng)
        if isinstance(decision, Reuse):
            return compared
        for written in proofs.observed(decision, ENTRY, NEAR, True):
            written.result(30)
    raise AssertionError("never earned")


def test_a_reuse_is_committed_before_it_is_given(db: Database) -> None:
    proofs, rng = worker(db), random.Random(1)
    assert earn(proofs, rng) > 30
    assert SemanticObservations(db).counts(SCOPE)[0]["reused", 0] == 1


def test_another_worker_needs_no_proof_of_its_own(db: Database) -> None:
    rng = random.Random(2)
    earn(worker(db), rng)
    assert earn(worker(db), rng) < 30


def test_a_wrong_answer_seen_by_one_worker_is_never_unknown_to_the_next(db: Database) -> None:
    rng = random.Random(3)
    proofs = worker(db)
    earn(proofs, rng)
    for _ in range(200):
        decision = proofs.decide(ENTRY, NEAR, rng)
        if isinstance(decision, Explore):
            for written in proofs.observed(decision, ENTRY, NEAR, False):
                written.result(30)
    fresh = worker(db)
    assert all(isinstance(fresh.decide(ENTRY, NEAR, rng), Explore) for _ in range(20))


def test_an_abandoned_audit_is_never_held_against_reuse_for_good(db: Database) -> None:
    proofs, rng = worker(db), random.Random(4)
    earn(proofs, rng)
    reused = 0
    for _ in range(200):
        decision = proofs.decide(ENTRY, NEAR, rng)
        if isinstance(decision, Reuse):
            reused += 1
        else:
            assert decision.reason == "audit"
            proofs.abandoned(decision)
    assert reused > 50


def test_a_reuse_that_cannot_be_counted_is_never_given(db: Database) -> None:
    proofs, rng = worker(db), random.Random(5)
    earn(proofs, rng)
    db.close()
    for _ in range(20):
        with pytest.raises(Exception, match="closed"):
            proofs.decide(ENTRY, NEAR, rng)
