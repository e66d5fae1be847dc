"""Few-shot distillation by novelty (LOGIC): a request like enough past ones goes to the small engine, with them as examples.

Novelty is low if at least m past answers lie within similarity theta. It needs no training, so it is what a fresh
installation runs, and the baseline a learned router must beat.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from router.digest import scope
from router.plan import Ask, Attempt, Candidate, Plan
from router.policies.nearest_examples import familiar, that_fit
from router.policies.question import Embed, Looker
from router.prompt import tokens_needed, with_examples
from store.admission.cutting import EMBEDDED_CHARACTERS
from store.records import Vector


class Retrieve(Protocol):
    """What is needed of router.embedding.retriever.Retriever."""

    def nearest(self, tenant: str, scope: str, vector: Vector) -> list[Candidate]: ...


@dataclass(frozen=True, slots=True)
class Knobs:
    """theta: cosine from which a past request is near. m: near ones needed. The rest bounds what is sent along."""

    theta: float
    m: int
    max_examples: int
    max_example_tokens: int
    with_tools: bool
    retrieve_deadline_s: float
    same_names: bool
    """A neighbour that names other things is a look-alike, not a neighbour, however near: right for questions about facts,
    wrong for one task over ever-new texts."""
    max_characters: int = EMBEDDED_CHARACTERS


class FewShot:
    """`engines` run from small to large: the first is the understudy, the last the lead."""

    name = "few_shot"
    version = "1"

    def __init__(
        self,
        engines: tuple[str, ...],
        embedder: Embed,
        retriever: Retrieve,
        executor: Executor,
        knobs: Knobs,
        *,
        context_tokens: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`context_tokens`: the small engine's window as far as it is known now; examples must fit beside the request and
        its answer.
        """
        self._small, self._large = engines[0], engines[-1]
        self._looker = Looker(embedder, with_tools=knobs.with_tools, max_characters=knobs.max_characters)
        self._retriever = retriever
        self._executor = executor
        self.knobs = knobs  # Replaced as a whole when an operator turns a dial; any thread may.
        self._context_tokens = context_tokens

    async def decide(self, ask: Ask) -> Plan:
        """See router.policy.Policy."""
        looked = await self._looker.look(ask)
        text, vector, stages = looked.text, looked.vector, looked.stages_s
        if looked.refused or vector is None:
            return self._to_large(looked.refused, text=text, stages=stages, bypassed=looked.bypassed)
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self.knobs.retrieve_deadline_s):
                near, near_enough = await asyncio.get_running_loop().run_in_executor(
                    self._executor, self._near_and_familiar, ask.tenant, scope(ask.chat), vector, text
                )
        except Exception as error:
            skipped = (f"nearest:{type(error).__name__}",)
            return self._to_large(
                "no_neighbours_known", text=text, vector=vector, stages=stages, bypassed=skipped
            )
        finally:
            stages["nearest"] = time.perf_counter() - began
        began = time.perf_counter()
        chosen = self._within_budget(near_enough, ask)
        stages["combine"] = time.perf_counter() - began
        # Pairs that were merged into one example (store.examples.twins) are still that many past answers.
        novel = sum(1 + c.example.merged for c in near_enough) < self.knobs.m
        if novel or not chosen:
            reason = "novel" if novel else "no_example_fits"
            return self._to_large(reason, text=text, vector=vector, near=near, stages=stages)
        messages = with_examples(ask.chat.messages, chosen)
        return Plan(
            (Attempt(self._small, messages, chosen), Attempt(self._large)),
            self.name,
            self.version,
            "familiar",
            embedded_text=text,
            vector=vector,
            neighbours=tuple(near),
            stages_s=stages,
        )

    def _near_and_familiar(
        self, tenant: str, scope_: str, vector: Vector, text: str
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Candidates, and those of them that count as near. Blocks: for the executor."""
        near = self._retriever.nearest(tenant, scope_, vector)
        return near, familiar(near, text, theta=self.knobs.theta, same_names=self.knobs.same_names)

    def _within_budget(self, nearest_first: list[Candidate], ask: Ask) -> tuple[Candidate, ...]:
        knobs = self.knobs
        most = knobs.max_examples if ask.max_examples is None else min(ask.max_examples, knobs.max_examples)
        budget = knobs.max_example_tokens
        if (window := self._context_tokens()) is not None:
            budget = min(budget, window - tokens_needed(ask.chat))
        return that_fit(nearest_first, most=most, room_tokens=budget)

    def _to_large(
        self,
        reason: str,
        *,
        text: str = "",
        vector: Vector | None = None,
        near: list[Candidate] | None = None,
        stages: dict[str, float] | None = None,
        bypassed: tuple[str, ...] = (),
    ) -> Plan:
        return Plan(
            (Attempt(self._large), Attempt(self._small)),
            self.name,
            self.version,
            reason,
            embedded_text=text,
            vector=vector,
            neighbours=tuple(near or ()),
            stages_s=stages or {},
            bypassed=bypassed,
        )
