"""Few-shot distillation by novelty (LOGIC): sends a familiar request to the small engine with past answers as examples.

Without a gate a request is familiar if at least m past answers lie within similarity theta: the baseline that a learned
router must beat. With one, what is proven decides (docs/explanation/proof.md): the small engine answers where comparisons
have shown it to be as good as the reference, with examples or without.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from router.deadline import Deadline
from router.digest import shared_scope
from router.embedding.embedder import Embedder
from router.embedding.retriever import Retriever
from router.embedding.templates import Templates
from router.plan import LATE, SHADOW, Action, Ask, Attempt, Candidate, Plan
from router.policies.late import LateDecisions
from router.policies.nearest_examples import attempt, counts, familiar, of_conversation, that_fit
from router.policies.proven import shadow, whole_is_open
from router.policies.question import EmbeddedQuestion, QuestionEmbedder, QuestionKnobs
from router.prompt import tokens_needed
from router.proving.gate import Gate
from router.proving.standing import Proof
from router.standalone import Standalone
from store.records import Vector


@dataclass(frozen=True, slots=True)
class Knobs(QuestionKnobs):
    """Settings of the rule (theta, m, same_names) and limits of what is sent."""

    theta: float
    """Cosine from which a past request counts as near."""
    m: int
    """Number of near past answers that make a request familiar."""
    max_examples: int
    max_example_tokens: int
    retrieve_deadline_s: float | None
    """None: the measured one (router.deadline)."""
    same_names: bool
    """True if a neighbour must name the same things as the request: right for questions about facts, wrong for one task
    over ever-new texts."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The material of a decision."""

    near: list[Candidate]
    chosen: tuple[Candidate, ...]
    """Examples that would be sent."""
    proof: Proof | None
    counted: dict[int, int]
    """The past answers that count as near, by the example's id: pairs that were merged into one example
    (store.examples.twins) still count as that many."""
    knobs: Knobs
    """The settings that it was found with."""

    @property
    def novel(self) -> bool:
        """Tell if too few past answers are near."""
        return sum(self.counted.values()) < self.knobs.m


class FewShot:
    """Implements router.plan.Policy. `engines` run from small to large; requests go to the first or the last, and those
    between stand in for it, the largest first."""

    name = "few_shot"
    version = "1"

    def __init__(
        self,
        engines: tuple[str, ...],
        embedder: Embedder,
        retriever: Retriever,
        executor: Executor,
        knobs: Knobs,
        *,
        context_tokens: Callable[[], int | None] = lambda: None,
        templates: Templates | None = None,
        gate: Gate | None = None,
        deadline: Deadline | None = None,
        standalone: Standalone | None = None,
    ) -> None:
        """`context_tokens` returns the small engine's context window as far as it is known; examples must fit beside the
        request and its answer. `gate`: None if a familiar request needs no proof.
        """
        self._gate = gate
        self._small = engines[0]
        self._largest_first = tuple(Attempt(name) for name in reversed(engines))
        self._questions = QuestionEmbedder(embedder, knobs, templates, standalone)
        self._retriever = retriever
        self._executor = executor
        self._deadline = deadline or Deadline()
        self._late = LateDecisions()
        # Both are replaced as a whole when an operator changes a setting, from any thread.
        self.knobs = knobs
        self.knobs_of: Mapping[str, Knobs] = {}
        """By tenant, those that differ."""
        self._context_tokens = context_tokens

    async def decide(self, ask: Ask) -> Plan:
        """See router.plan.Policy."""
        question = await self._questions.embed(ask)
        if question.bypassed and whole_is_open(self._gate, ask, question):
            question = self._questions.with_guess(question)
        text, vector, stages = question.digest.text, question.vector, question.stages_s
        if question.refused or vector is None:
            plan = self._to_large(question.refused, text=text, stages=stages, bypassed=question.bypassed)
            return self._going_on(plan, ask, question) if question.bypassed else plan
        if question.without_examples and self._gate is None:
            # The rule has nothing but examples to go by.
            return self._to_large("tools", text=text, vector=vector, stages=stages)
        began = time.perf_counter()
        try:
            found = await self._found(ask, question, vector)
        except Exception as error:
            skipped = (f"nearest:{type(error).__name__}",)
            reason = LATE if isinstance(error, TimeoutError) else "no_neighbours_known"
            plan = self._to_large(
                reason,
                text=text,
                vector=None if question.guessed else question.vector,
                stages=stages,
                bypassed=question.bypassed + skipped,
            )
            return self._going_on(plan, ask, question)
        finally:
            stages["nearest"] = time.perf_counter() - began
        return self._plan(ask, question, found)

    async def _found(self, ask: Ask, question: EmbeddedQuestion, vector: Vector) -> _Found:
        """Look up the material of a decision in time. Raises TimeoutError, and what a store raises."""
        if self._retriever.at_once(ask.tenant, question.scope):
            return self._weigh(ask, question, vector)
        deadline_s = self.knobs.retrieve_deadline_s
        return await self._deadline.run(self._executor, self._weigh, deadline_s, ask, question, vector)

    def _going_on(self, plan: Plan, ask: Ask, question: EmbeddedQuestion) -> Plan:
        if self._gate is None or ask.forced:
            # Nothing is compared for it.
            return plan

        async def decide() -> Plan:
            embedded = await self._questions.embedded_later(question)
            assert embedded.vector is not None
            found = await asyncio.get_running_loop().run_in_executor(
                self._executor, self._weigh, ask, embedded, embedded.vector
            )
            return self._plan(ask, embedded, found)

        return self._late.go_on(plan, decide)

    def _plan(self, ask: Ask, question: EmbeddedQuestion, found: _Found) -> Plan:
        stages = question.stages_s
        began = time.perf_counter()
        reason, action = self._decided(found)
        with_examples_found = attempt(self._small, ask, found.chosen)
        stages["combine"] = time.perf_counter() - began
        attempts = self._largest_first
        if action is not None:
            small = replace(with_examples_found, engine=action.engine)
            first = small if action.with_examples else Attempt(action.engine)
            attempts = (first, *(each for each in attempts if each.engine != action.engine))
        return Plan(
            attempts,
            self.name,
            self.version,
            reason,
            embedded_text=question.digest.text,
            vector=None if question.guessed else question.vector,
            neighbours=tuple(found.near),
            stages_s=stages,
            bypassed=question.bypassed,
            proof=found.proof,
            shadow=shadow(found.proof, with_examples_found),
            found=with_examples_found if found.proof is not None else None,
            settings=_settings(found),
            familiar=found.counted,
        )

    def _weigh(self, ask: Ask, question: EmbeddedQuestion, vector: Vector) -> _Found:
        """Looks up what there is to decide on. Blocks: for the executor."""
        knobs = self.knobs_of.get(ask.tenant, self.knobs)
        near: list[Candidate] = []
        if not question.without_examples:
            near = self._retriever.nearest(
                ask.tenant, question.scope, vector, self._questions.comparable(question)
            )
        near_enough = familiar(near, question.text, theta=knobs.theta, same_names=knobs.same_names)
        # What is proven of small engines is proven with the nearest examples, however near they are.
        chosen = self._within_budget(near_enough if self._gate is None else near, ask, knobs, question.scope)
        proof = None
        if self._gate is not None:
            bank = self._retriever.size(ask.tenant)
            scope = shared_scope(question.scope)
            vector_known = None if question.guessed else question.vector
            proof = self._gate.proof(ask.tenant, scope, vector_known, chosen, bank, unit=ask.unit())
        return _Found(near, chosen, proof, counts(near_enough), knobs)

    def _decided(self, found: _Found) -> tuple[str, Action | None]:
        """Why which engine answers, and how a smaller one does; None: the reference does."""
        if found.proof is not None:
            opened = found.proof.open_actions()
            return ("proven", opened[0]) if opened else (SHADOW, None)
        if found.novel:
            return "novel", None
        return ("familiar", Action(self._small, True)) if found.chosen else ("no_example_fits", None)

    def _within_budget(
        self, nearest_first: list[Candidate], ask: Ask, knobs: Knobs, scope: str
    ) -> tuple[Candidate, ...]:
        most = knobs.max_examples if ask.max_examples is None else min(ask.max_examples, knobs.max_examples)
        budget = knobs.max_example_tokens
        if (window := self._context_tokens()) is not None:
            budget = min(budget, window - tokens_needed(ask.chat))
        had = of_conversation(ask, scope, self._retriever, most=most, room_tokens=budget)
        return had or that_fit(nearest_first, most=most, room_tokens=budget)

    def _to_large(
        self,
        reason: str,
        *,
        text: str = "",
        vector: Vector | None = None,
        stages: dict[str, float] | None = None,
        bypassed: tuple[str, ...] = (),
    ) -> Plan:
        return Plan(
            self._largest_first,
            self.name,
            self.version,
            reason,
            embedded_text=text,
            vector=vector,
            stages_s=stages or {},
            bypassed=bypassed,
        )


def _settings(found: _Found) -> dict[str, float]:
    """See Plan.settings."""
    knobs = found.knobs
    return {
        "theta": knobs.theta,
        "m": float(knobs.m),
        "max_examples": float(knobs.max_examples),
        "by_proof": float(found.proof is not None),
    }
