"""The stage that may answer with a similar question's answer: find a candidate, ask the gates, ask for a decision.

Off the event loop but for embedding's wait, within a deadline; late or broken means that the model is asked. What comes of
asking is handed to gateway.reuse.keepers by way of `Finished.reuse`. The rules are in docs/explanation/caching.md.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from cachetools import LRUCache

from gateway.reuse.metrics import SemanticMetrics
from gateway.reuse.request import SemanticAsk, semantic_ask
from gateway.same_request import tells_enough
from learning.reuse.decision import Explore, Reuse
from learning.reuse.ledger import ReuseSettings
from learning.reuse.proofs import Proofs
from router.asked import Asked
from router.deadline import Deadline
from router.digest import scope, user_scope
from router.embedding.retriever import NEIGHBOURS
from router.embedding.templates import Templates
from router.finished import Journey
from router.plan import Attempt, Plan
from router.wording.lexical_gates import blocked
from store.admission.cutting import EMBEDDED_CHARACTERS
from store.answers.semantic_entries import SemanticEntry
from store.answers.semantic_observations import SemanticObservations, SemanticScope
from store.records import ExactAnswer, Vector

_SCOPES = 10_000
"""Proofs held in memory. Those not used for longest go, and come back from the store."""


class Index(Protocol):
    """What is needed of store.examples.vector_index.TenantIndexes."""

    def nearest(self, tenant: str, vector: Vector, k: int) -> list[tuple[int, float]]: ...


class Bank(Protocol):
    """What is needed of store.examples.bank.ExampleBank."""

    def nearest_in(
        self, tenant: str, scope: str, vector: Vector, k: int, version: str
    ) -> list[tuple[int, float]]: ...


class Entries(Protocol):
    """What is needed of store.answers.semantic_entries.SemanticEntries."""

    def among(
        self, tenant: str, same_otherwise: bytes, example_ids: Sequence[int], now_s: float
    ) -> dict[int, SemanticEntry]: ...


class Embed(Protocol):
    """What is needed of router.embedding.embedder.Embedder."""

    @property
    def version(self) -> str: ...

    async def embed(self, text: str) -> Vector: ...


@dataclass(frozen=True, slots=True)
class Knobs:
    """What the operator set."""

    deltas: Mapping[str, float]
    """By key id, and gateway.reuse.request.KEYLESS: the share of reused answers that may be wrong."""
    audit_share: float
    deadline_s: float | None
    """None: the measured one (router.deadline)."""
    neighbours: int = NEIGHBOURS
    max_characters: int = EMBEDDED_CHARACTERS


@dataclass(frozen=True, slots=True)
class Comparison:
    """An answer owed: the fresh one is to be compared with `entry`'s."""

    proofs: Proofs
    decision: Explore
    entry: SemanticEntry
    similarity: float

    def abandoned(self) -> None:
        """There is no fresh answer. Waits for a lock."""
        self.proofs.abandoned(self.decision)


@dataclass(frozen=True, slots=True)
class Reused:
    """An answer to be given."""

    answer: ExactAnswer
    decision: Reuse
    policy: str
    example_id: int
    """The example whose answer it is."""

    def headers(self) -> dict[str, str]:
        """What tells the client that this answer was another question's."""
        age_s = max(0, int(time.time() - self.answer.stored_at_s))
        left_s = max(0, int(self.answer.ttl_s) - age_s)
        return {
            "Cache-Status": f"understudy; hit; detail=semantic; ttl={left_s}",
            "x-understudy-reuse": "semantic",
        }


@dataclass(slots=True)
class SemanticStage:
    """What the recorder needs of a request that took part."""

    ask: SemanticAsk
    reused: Reused | None = None
    """What is to be given as the answer; None: ask the model."""
    comparison: Comparison | None = None
    agreed: bool = False
    """The comparison found the remembered answer right: the fresh pair need not be remembered as well."""

    def steered(self, plan: Plan, reference: str) -> Plan:
        """`plan`, but asking the reference first, without examples, where a comparison is to prove or audit something.

        A small engine that was shown the entry as an example would agree with it for the wrong reason.
        """
        if self.comparison is None or self.comparison.decision.rung is None:
            return plan
        decision = self.comparison.decision
        others = tuple(attempt for attempt in plan.attempts if attempt.engine != reference)
        return replace(
            plan,
            attempts=(Attempt(reference), *others),
            reason=f"semantic_{decision.reason}",
            probability=plan.probability * decision.probability,
        )


class SemanticAnswers:
    """See the module. `threads` is its own, since reuse waits for a commit."""

    def __init__(
        self,
        embedder: Embed,
        index: Index,
        entries: Entries,
        observations: SemanticObservations,
        threads: Executor,
        metrics: SemanticMetrics,
        knobs: Knobs,
        templates: Templates | None = None,
        *,
        bank: Bank,
    ) -> None:
        self._embedder = embedder
        self._index = index
        self._bank = bank
        self._entries = entries
        self._observations = observations
        self._threads = threads
        self._metrics = metrics
        self._knobs = knobs
        self._deadline = Deadline()
        self._templates = templates or Templates()
        # Nobody may foresee which answers are audited.
        self._rng = random.SystemRandom()
        self._lock = threading.Lock()
        self._proofs: LRUCache[SemanticScope, Proofs] = LRUCache(_SCOPES)

    async def consider(
        self,
        asked: Asked,
        journey: Journey,
        *,
        endpoint: str,
        served_by: str,
        ignored_fields: Collection[str] = (),
    ) -> SemanticStage | None:
        """The request's part in reuse; None where it takes none. Never raises."""
        ask = semantic_ask(
            asked.chat,
            asked.controls,
            self._knobs.deltas,
            tenant=asked.arrival.tenant,
            key_id=asked.arrival.key_id,
            endpoint=endpoint,
            served_by=served_by,
            max_characters=self._knobs.max_characters,
            ignored_fields=ignored_fields,
            end_user=asked.end_user,
        )
        if ask is None:
            return None
        stage = SemanticStage(ask)
        if not ask.reads:
            return stage
        began = time.perf_counter()
        try:
            asked_under = scope(asked.chat, named=asked.controls.scope, end_user=asked.end_user)
            found = await self._found(ask, asked_under)
        except Exception as error:
            journey.bypassed.append(f"semantic:{type(error).__name__}")
            self._metrics.decisions.labels("bypassed").inc()
            return stage
        finally:
            journey.stage("semantic", began)
        if isinstance(found, Comparison):
            stage.comparison = found
        else:
            stage.reused = found
        return stage

    def close(self) -> None:
        """Wait for what is under way. Blocks."""
        self._threads.shutdown()

    async def _found(self, ask: SemanticAsk, asked_under: str) -> Reused | Comparison | None:
        digest = partial(self._templates.digest, ask.tenant, asked_under)
        asked = digest(ask.question)
        vector = await self._embedder.embed(asked.text)

        def same_template(entry: SemanticEntry) -> bool:
            return digest(entry.question).left_out == asked.left_out

        work: Future[Reused | Comparison | None] = self._threads.submit(
            self._look, ask, asked_under, vector, same_template
        )
        try:
            return await self._deadline.wait(work, self._knobs.deadline_s)
        except BaseException:
            # Late, or the client left: an audit that was decided on meanwhile will never be answered.
            self._threads.submit(_let_go, work)
            raise

    def _nearest(self, tenant: str, asked_under: str, vector: Vector) -> dict[int, float]:
        """Similarities by example id. An end user's own are compared one by one: other users' would fill the list."""
        most = self._knobs.neighbours
        if user_scope(asked_under):
            version = self._embedder.version
            return dict(self._bank.nearest_in(tenant, asked_under, vector, most, version))
        return dict(self._index.nearest(tenant, vector, most))

    def _look(
        self,
        ask: SemanticAsk,
        asked_under: str,
        vector: Vector,
        same_template: Callable[[SemanticEntry], bool],
    ) -> Reused | Comparison | None:
        """Blocks: for the executor."""
        similarity = self._nearest(ask.tenant, asked_under, vector)
        known = self._entries.among(ask.tenant, ask.same_otherwise(), list(similarity), time.time())
        entries = [e for e in known.values() if tells_enough(e.answer, ask.chat) and same_template(e)]
        if not entries:
            self._metrics.decisions.labels("no_candidate").inc()
            return None
        # Of equally near ones the freshest.
        entry = max(entries, key=lambda e: (similarity[e.example_id], e.answer.stored_at_s))
        near = similarity[entry.example_id]
        gate = blocked(ask.question, entry.question)
        if gate is not None:
            self._metrics.decisions.labels("gate").inc()
            self._metrics.gates.labels(gate).inc()
            return None
        settings = ReuseSettings(ask.delta, audit_share=self._knobs.audit_share)
        proofs = self._of(SemanticScope(ask.tenant, self._embedder.version, settings.policy), settings)
        decision = proofs.decide(entry.id, near, self._rng)
        if isinstance(decision, Reuse):
            self._metrics.decisions.labels("reuse").inc()
            return Reused(entry.answer, decision, settings.policy, entry.example_id)
        self._metrics.decisions.labels(decision.reason).inc()
        return Comparison(proofs, decision, entry, near) if decision.compare else None

    def _of(self, scope: SemanticScope, settings: ReuseSettings) -> Proofs:
        with self._lock:
            proofs = self._proofs.get(scope)
            if proofs is None:
                proofs = self._proofs[scope] = Proofs(scope, settings, self._observations)
            return proofs


def _let_go(work: Future[Reused | Comparison | None]) -> None:
    """Waits for the work, where it has begun, and gives up a comparison that came of it."""
    if work.cancelled() or work.exception() is not None:
        return
    found = work.result()
    if isinstance(found, Comparison):
        found.abandoned()
