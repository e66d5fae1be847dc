"""The stage by itself: real SQLite and proofs, an index and an embedder that do what the test says."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from multidict import CIMultiDict
from prometheus_client import CollectorRegistry

from engines.chat import ChatRequest
from gateway.controls import NONE
from gateway.reuse.metrics import SemanticMetrics
from gateway.reuse.request import SemanticAsk, semantic_ask
from gateway.reuse.stage import Comparison, Knobs, SemanticAnswers, SemanticStage
from learning.reuse.decision import Explore
from learning.reuse.ledger import ReuseSettings
from learning.reuse.proofs import Proofs
from router.asked import Arrival, Asked
from router.finished import Journey
from router.plan import Attempt, Plan
from store.answers.semantic_entries import SemanticEntries, SemanticEntry
from store.answers.semantic_observations import SemanticObservations, SemanticScope
from store.examples.bank import ExampleBank
from store.records import ExactAnswer, Vector
from store.sqlite.database import Database
from tests.store.rows import new_example

QUESTION = "How deep is the lake?"
DELTAS = {"default": 0.2}


@dataclass
class Near:
    """An index that finds `found`, once `gate` is open."""

    found: list[tuple[int, float]]
    gate: threading.Event = field(default_factory=threading.Event)

    def nearest(self, tenant: str, vector: Vector, k: int) -> list[tuple[int, float]]:
        self.gate.wait(60)
        return self.found


class Still:
    """An embedder to which all texts are alike."""

    version = "mini/1"

    async def embed(self, text: str) -> Vector:
        return np.ones(4, np.float32) / 2


@dataclass
class Stage:
    answers: SemanticAnswers
    index: Near

    async def ask(self) -> tuple[SemanticStage, Journey]:
        arrival = Arrival("j", time.perf_counter(), time.time())
        asked, journey = Asked(arrival, "/v1/c", CIMultiDict(), a_chat()), Journey(arrival)
        stage = await self.answers.consider(asked, journey, endpoint="/v1/c", served_by="fixed")
        assert stage is not None
        return stage, journey

    async def earn(self) -> None:
        """Compare until something is reused."""
        for _ in range(300):
            stage, _ = await self.ask()
            if stage.reused is not None:
                return
            owed = stage.comparison
            assert owed
            for written in owed.proofs.observed(owed.decision, owed.entry.id, owed.similarity, True):
                await asyncio.wrap_future(written)
        raise AssertionError("never earned")

    @property
    def under_way(self) -> int:
        (proofs,) = self.answers._proofs.values()
        return proofs._reuse.ledger.audits_under_way


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "a.db")
    yield database
    database.close()


@pytest.fixture
def stage(db: Database) -> Iterator[Stage]:
    new = new_example(1, tenant="default", request_id="r", question=QUESTION, answer="Deep.")
    bank = ExampleBank(db)
    example = bank.add(new).result(30)
    entries = SemanticEntries(db)
    kept = ExactAnswer(b"{}", "application/json", "large", time.time())
    assert entries.add("default", "r", an_ask().same_otherwise(), QUESTION, kept, "Deep.").result(30)
    index = Near([(example.id, 0.97)])
    index.gate.set()
    metrics = SemanticMetrics(CollectorRegistry())
    knobs = Knobs(DELTAS, audit_share=0.5, deadline_s=10, neighbours=4, max_characters=1000)
    answers = SemanticAnswers(
        Still(), index, entries, SemanticObservations(db), ThreadPoolExecutor(2), metrics, knobs, bank=bank
    )
    yield Stage(answers, index)
    index.gate.set()
    answers.close()


async def test_an_audit_that_came_too_late_is_never_held_against_reuse(stage: Stage) -> None:
    await stage.earn()
    object.__setattr__(stage.answers._knobs, "deadline_s", 1e-9)
    for _ in range(40):
        stage.index.gate.clear()
        asking = asyncio.create_task(stage.ask())
        late, journey = await asking
        assert late.reused is None and journey.bypassed == ["semantic:TimeoutError"]
        assert late.comparison is None
        stage.index.gate.set()
    stage.answers.close()
    assert stage.under_way == 0


async def test_a_client_that_left_meanwhile_owes_nothing(stage: Stage) -> None:
    await stage.earn()
    for _ in range(20):
        stage.index.gate.clear()
        asking = asyncio.create_task(stage.ask())
        await asyncio.sleep(0.005)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        stage.index.gate.set()
    stage.answers.close()
    assert stage.under_way == 0


async def test_what_breaks_is_gone_without(stage: Stage, db: Database) -> None:
    db.close()
    broken, journey = await stage.ask()
    assert broken.reused is None and journey.bypassed == ["semantic:StoreClosed"]


def test_what_is_to_be_proven_is_never_left_to_a_small_engine(db: Database) -> None:
    plan = Plan((Attempt("small", [{"role": "user"}]), Attempt("large")), "few_shot", "1", "familiar")
    for decision, engines in (
        (Explore("new_entry", None, 1.0, compare=True), ["small", "large"]),
        (Explore("unproven", 2, 1.0, compare=True), ["large", "small"]),
        (Explore("audit", 2, 0.1, compare=True), ["large", "small"]),
    ):
        steered = owing(decision, db).steered(plan, "large")
        assert [attempt.engine for attempt in steered.attempts] == engines
        assert steered.attempts[engines.index("large")].messages is None
        assert steered.probability == decision.probability
    assert SemanticStage(an_ask()).steered(plan, "large") is plan


def owing(decision: Explore, db: Database) -> SemanticStage:
    entry = SemanticEntry(1, 1, QUESTION, "Deep.", ExactAnswer(b"{}", "application/json", "large", 0.0))
    settings = ReuseSettings(0.2)
    proofs = Proofs(SemanticScope("default", "mini/1", settings.policy), settings, SemanticObservations(db))
    return SemanticStage(an_ask(), comparison=Comparison(proofs, decision, entry, 0.97))


def a_chat() -> ChatRequest:
    fields: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": QUESTION}]}
    return ChatRequest(b"{}", fields, "m", fields["messages"], stream=False, include_usage=False)


def an_ask() -> SemanticAsk:
    made = semantic_ask(
        a_chat(),
        NONE,
        DELTAS,
        tenant="default",
        key_id=None,
        endpoint="/v1/c",
        served_by="fixed",
        max_characters=1000,
    )
    assert made is not None
    return made
