"""What is said of an answer later makes the gain of its examples what it should have been, once, and nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from learning.outcomes.known_quality import KnownQuality
from learning.replay.gain import UNJUDGED, gain
from store.decisions.outcomes import Outcomes
from store.examples.bank import ExampleBank
from store.records import OutcomeRecord
from store.sqlite.database import Database
from tests.store.rows import new_example

COST = 0.25


def outcome(ids: tuple[int, ...], quality: float, **changes: object) -> OutcomeRecord:
    fields: dict[str, object] = {
        "request_id": "r",
        "tenant": "a1",
        "at_s": 1000.0,
        "source": "judge",
        "key": "judge/small/with",
        "engine": "small",
        "example_ids": ids,
        "served": True,
        "quality": quality,
    }
    return OutcomeRecord(**(fields | changes))  # type: ignore[arg-type]


def test_the_gain_of_a_use_ends_at_what_all_said_of_it(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "u.db")
    bank, outcomes = ExampleBank(db), Outcomes(db)
    own = bank.add(new_example(1)).result().id
    lent = bank.add(new_example(2, tenant="b2")).result().id
    known = KnownQuality(outcomes, bank.ledger, bank, {"small": 2.5, "large": 10.0})

    def gained(tenant: str, id: int) -> float:
        written = bank.flush_uses()
        if written is not None:
            written.result()
        (example,) = bank.by_ids(tenant, [id])
        return example.gain

    bank.ledger.note_gain([own, lent], gain(COST, UNJUDGED))
    judged = outcome((own, lent), 0.0)
    outcomes.note(judged).result()
    known("a1", "r", [judged])
    assert gained("a1", own) == pytest.approx(COST, rel=1e-3)
    assert gained("b2", lent) == pytest.approx(COST / 2, rel=1e-3), "what another tenant lent stays as it was"
    user = outcome((own, lent), 1.0, source="user", key="thumb:1")
    outcomes.note(user).result()
    known("a1", "r", [user])
    assert gained("a1", own) == pytest.approx(COST / 2, rel=1e-3), "one said 0, the other 1"
    asked_for_comparison = outcome((own,), 0.0, served=False, key="judge/small/without")
    outcomes.note(asked_for_comparison).result()
    known("a1", "r", [asked_for_comparison])
    known("a1", "unknown", [outcome((own,), 0.0, request_id="unknown")])
    assert gained("a1", own) == pytest.approx(COST / 2, rel=1e-3)
    db.close()
