from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from engines.answers.answer import Body
from engines.errors import Kind
from engines.trail import Tried
from gateway.keepers.keeper import Kept
from gateway.reuse.keepers import Comparer, EntryKeeper, UnlessAgreed, around
from gateway.reuse.metrics import SemanticMetrics
from gateway.reuse.stage import Comparison, SemanticStage
from learning.reuse.decision import Explore
from learning.reuse.equivalence import same_text
from learning.reuse.ledger import ReuseSettings
from learning.reuse.proofs import Proofs
from router.finished import Finished, Outcome
from store.answers.semantic_entries import SemanticEntry
from store.answers.semantic_observations import SemanticObservations, SemanticScope
from store.records import ExactAnswer
from store.sqlite.database import Database
from tests.finished import finished
from tests.flow.line import completion
from tests.gateway.reuse.test_stage import a_chat, an_ask

SETTINGS = ReuseSettings(0.2)
SCOPE = SemanticScope("default", "mini/1", SETTINGS.policy)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "a.db")
    yield database
    database.close()


class Shelf:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.kept: list[tuple[Any, ...]] = []

    def add(self, *given: Any) -> Future[Any]:
        self.kept.append(given)
        done: Future[Any] = Future()
        done.set_result(True)
        return done


class Everything:
    """Keeps any answer."""

    def keep(self, finished: Finished) -> Iterator[Kept]:
        yield "example", "kept"


def answered(db: Database, text: str = "Deep!", *, owes: bool = True, **said: Any) -> Finished:
    stage = SemanticStage(an_ask())
    if owes:
        entry = SemanticEntry(7, 1, "Q?", "Deep.", ExactAnswer(b"{}", "application/json", "large", 0.0))
        proofs = Proofs(SCOPE, SETTINGS, SemanticObservations(db))
        stage.comparison = Comparison(proofs, Explore("unproven", 2, 1.0, compare=True), entry, 0.97)
    return finished(
        a_chat(),
        body=orjson.dumps(completion(text, **said)),
        from_reference=True,
        engine="large",
        reuse=stage,
    )


def compare(db: Database, what: Finished) -> dict[tuple[str, int], int]:
    """What is counted of it."""
    comparer = Comparer(same_text, SemanticMetrics(CollectorRegistry()))
    for _, written in comparer.keep(what):
        assert not isinstance(written, str)
        written.result(30)
    return SemanticObservations(db).counts(SCOPE).get(0, {})


def test_an_answer_that_agrees_is_counted_right_and_takes_no_place_of_its_own(db: Database) -> None:
    what = answered(db, "deep")
    assert compare(db, what) == {("right", 97): 1, ("labelled", 2): 1}
    assert list(UnlessAgreed(Everything()).keep(what)) == [("example", "semantic_agreed")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Shallow.", {}),
        ("Deep.", {"finish_reason": "length"}),
        ("Deep.", {"message": {"refusal": "No."}}),
        ("Deep.", {"n": 2}),
        ("", {}),
    ],
)
def test_what_does_not_plainly_agree_is_never_counted_right(
    db: Database, text: str, said: dict[str, Any]
) -> None:
    what = answered(db, text, **said)
    assert compare(db, what)["wrong", 97] == 1
    assert list(UnlessAgreed(Everything()).keep(what)) == [("example", "kept")]


def test_an_answer_too_long_to_be_kept_is_never_taken_for_agreement(db: Database) -> None:
    unkept = replace(answered(db), body=Body(size_bytes=10_000), assembled=None)
    assert compare(db, unkept)["wrong", 97] == 1


@pytest.mark.parametrize(
    "change",
    [{"outcome": Outcome.ABORTED}, {"status": 500}, {"from_reference": False}],
    ids=["client left", "engine failed", "small engine"],
)
def test_what_the_reference_did_not_answer_counts_for_nothing(db: Database, change: dict[str, Any]) -> None:
    assert compare(db, replace(answered(db), **change)) == {}


def test_only_a_whole_plain_answer_of_the_reference_is_kept_for_others(db: Database) -> None:
    def kept(what: Finished, max_bytes: int = 10_000) -> int:
        shelf = Shelf()
        list(EntryKeeper(shelf, max_bytes=max_bytes, clock=time.time).keep(what))
        return len(shelf.kept)

    assert kept(answered(db, owes=False)) == 1
    assert kept(answered(db, owes=False), max_bytes=10) == 0
    assert kept(answered(db, owes=False, finish_reason="length")) == 0
    changes: list[dict[str, Any]] = [
        {"outcome": Outcome.ABORTED},
        {"status": 404},
        {"from_reference": False},
        {"hit": b"{}"},
        {"failed_over": Tried("small", "", Kind.SERVER, 503, 0.1)},
    ]
    for change in changes:
        assert kept(replace(answered(db, owes=False), **change)) == 0, change


def test_the_comparison_never_comes_after_the_pair_was_admitted(db: Database) -> None:
    comparer, behind = (
        Comparer(same_text, SemanticMetrics(CollectorRegistry())),
        EntryKeeper(Shelf(), max_bytes=1),
    )
    order = around(Everything(), comparer, behind)
    assert [type(keeper) for keeper in order] == [Comparer, UnlessAgreed, EntryKeeper]
