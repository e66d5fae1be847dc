from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from engines.finished import from_json
from gateway.answer import Answer
from gateway.journey import Journey, Outcome
from gateway.keepers.keeper import Keeping
from gateway.reuse.keepers import Comparer, EntryKeeper, UnlessAgreed
from gateway.reuse.metrics import SemanticMetrics
from gateway.reuse.stage import Comparison, SemanticStage
from learning.reuse.decision import Explore, ReuseSettings
from learning.reuse.equivalence import same_text
from learning.reuse.proofs import Proofs
from store.answers.semantic_entries import SemanticEntry
from store.answers.semantic_observations import SemanticObservations, SemanticScope
from store.records import ExactAnswer
from store.sqlite.database import Database
from tests.flow.line import completion
from tests.gateway.reuse.test_stage import a_journey, an_answer, an_ask
from understudy.setup.semantic import SemanticParts

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

    def keep(self, journey: Journey, answer: Answer, assembled: Any) -> Iterator[Keeping]:
        yield "example", "kept"


def finished(db: Database, text: str = "Deep!", *, owes: bool = True, **said: Any) -> tuple[Journey, Answer]:
    answer, journey = an_answer(), a_journey()
    body = orjson.dumps(completion(text, **said))
    answer.kept.feed(body)
    answer.status, answer.complete, answer.from_reference = 200, True, True
    answer.content_type = "application/json"
    journey.outcome, journey.engine = Outcome.ANSWERED, "large"
    answer.semantic = SemanticStage(an_ask())
    if owes:
        entry = SemanticEntry(7, 1, "Q?", "Deep.", ExactAnswer(b"{}", "application/json", "large", 0.0))
        proofs = Proofs(SCOPE, SETTINGS, SemanticObservations(db))
        owed = Comparison(proofs, Explore("unproven", 2, 1.0, compare=True), entry, 0.97)
        answer.semantic.comparison = owed
    return journey, answer


def compare(db: Database, journey: Journey, answer: Answer) -> dict[tuple[str, int], int]:
    """What is counted of it."""
    assembled = from_json(b"".join(answer.kept.chunks)) if answer.kept.chunks else None
    comparer = Comparer(same_text, SemanticMetrics(CollectorRegistry()))
    for _, written in comparer.keep(journey, answer, assembled):
        assert not isinstance(written, str)
        written.result(30)
    return SemanticObservations(db).counts(SCOPE).get(0, {})


def test_an_answer_that_agrees_is_counted_right_and_takes_no_place_of_its_own(db: Database) -> None:
    journey, answer = finished(db, "deep")
    assert compare(db, journey, answer) == {("right", 97): 1, ("labelled", 2): 1}
    assert list(UnlessAgreed(Everything()).keep(journey, answer, None)) == [("example", "semantic_agreed")]


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
    journey, answer = finished(db, text, **said)
    assert compare(db, journey, answer)["wrong", 97] == 1
    assert list(UnlessAgreed(Everything()).keep(journey, answer, None)) == [("example", "kept")]


def test_an_answer_too_long_to_be_kept_is_never_taken_for_agreement(db: Database) -> None:
    journey, answer = finished(db)
    answer.kept.feed(b"x" * 10_000)
    assert answer.kept.overflowed
    assert compare(db, journey, answer)["wrong", 97] == 1


@pytest.mark.parametrize(
    "change",
    [{"complete": False}, {"status": 500}, {"from_reference": False}],
    ids=["client left", "engine failed", "small engine"],
)
def test_what_the_reference_did_not_answer_counts_for_nothing(db: Database, change: dict[str, Any]) -> None:
    journey, answer = finished(db)
    for name, value in change.items():
        setattr(answer, name, value)
    assert compare(db, journey, answer) == {}


def test_only_a_whole_plain_answer_of_the_reference_is_kept_for_others(db: Database) -> None:
    def kept(journey: Journey, answer: Answer, max_bytes: int = 10_000) -> int:
        shelf = Shelf()
        assembled = from_json(b"".join(answer.kept.chunks))
        list(EntryKeeper(shelf, max_bytes=max_bytes, clock=time.time).keep(journey, answer, assembled))
        return len(shelf.kept)

    assert kept(*finished(db, owes=False)) == 1
    assert kept(*finished(db, owes=False), max_bytes=10) == 0
    assert kept(*finished(db, owes=False, finish_reason="length")) == 0
    for change in ({"complete": False}, {"status": 404}, {"from_reference": False}, {"hit": b"{}"}):
        journey, answer = finished(db, owes=False)
        for name, value in change.items():
            setattr(answer, name, value)
        assert kept(journey, answer) == 0, change
    journey, answer = finished(db, owes=False)
    journey.reason = "novel+failover"
    assert kept(journey, answer) == 0


def test_the_comparison_never_comes_after_the_pair_was_admitted(db: Database) -> None:
    comparer, behind = (
        Comparer(same_text, SemanticMetrics(CollectorRegistry())),
        EntryKeeper(Shelf(), max_bytes=1),
    )
    order = SemanticParts(None, comparer, behind).around(Everything())  # type: ignore[arg-type]
    assert [type(keeper) for keeper in order] == [Comparer, UnlessAgreed, EntryKeeper]
