"""Distil: the reference engine answers an example's question again, a few times, and the best answer stays (EchoLM §4.3.1).

What other examples answer to the same question is compared first, since nobody has to be asked for it. An answer takes the
incumbent's place only if a judge finds it better, in both orders and by more than a tie; the old one can be restored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engines.chat import estimated_tokens
from learning.outcomes.judge import quality
from learning.outcomes.verdicts import Judge
from learning.replay.asking import Asking
from learning.replay.material import Material, NotReplayable, Subject, request
from router.digest import asked_under
from store.examples.twins import agrees
from store.examples.versions import Replacement, replaceable
from store.jobs.replay_jobs import ReplayJobs
from store.jobs.replay_records import ReplayStep
from store.records import Example


@dataclass(slots=True)
class _Best:
    """The best answer so far."""

    answer: str
    engine: str
    incumbent_quality: float = 1.0
    """The incumbent's quality, as the judge sees it beside the best other answer."""
    judged: int = 0
    incumbent: bool = True


@dataclass(frozen=True, slots=True)
class Distil:
    """Work of kind `distil` (learning.replay.run.StepWork)."""

    material: Material
    jobs: ReplayJobs
    judge: Judge
    samples: int = 3
    """Answers asked for at most."""
    max_tokens: int = 1024
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of these requests, such as a temperature."""

    async def __call__(self, step: ReplayStep, asking: Asking) -> str:
        """See StepWork."""
        subject = await asyncio.to_thread(self.material.subject, step.plan.tenant, step.plan.example_id)
        if not replaceable(subject.example):
            raise NotReplayable("held")
        best = await self._best(asking, subject)
        return await self._apply(step, subject.example, best)

    async def _best(self, asking: Asking, subject: Subject) -> _Best:
        example, reference = subject.example, subject.engines.reference
        fields = asked_under(subject.instructions, example.question)
        best = _Best(example.answer, example.source_engine)
        seen = [example.answer]
        for number, answer in enumerate(await asyncio.to_thread(self.material.twins_answers, example)):
            if not any(agrees(answer, known) for known in seen):
                seen.append(answer)
                await self._challenge(asking, f"twin/{number}", fields, best, answer, example.source_engine)
        for number in range(self.samples):
            chat = request(
                reference,
                subject.instructions,
                example.question,
                max_tokens=self.max_tokens,
                **self.fields,
            )
            answer = await asking.ask(
                f"answer/{number}", reference, chat, most_tokens=self.max_tokens, purpose="answer"
            )
            verdict = await asyncio.to_thread(self.material.admitted, fields, answer)
            if not verdict.admitted:
                continue
            if any(agrees(verdict.answer, known) for known in seen):
                # Two that were given independently say the same: a third would tell little.
                break
            seen.append(verdict.answer)
            name = reference.info.name
            await self._challenge(asking, f"sample/{number}", fields, best, verdict.answer, name)
        return best

    async def _challenge(
        self, asking: Asking, key: str, fields: Mapping[str, Any], best: _Best, answer: str, engine: str
    ) -> None:
        """Have an answer compared with the best so far; it takes its place if it is better."""
        found = await asking.compare(f"verdict/{key}", self.judge, fields["messages"], answer, best.answer)
        if found is None:
            return
        best.judged += 1
        if best.incumbent:
            best.incumbent_quality = min(best.incumbent_quality, quality(-found.score))
        if found.result == "win":
            best.answer, best.engine, best.incumbent = answer, engine, False

    async def _apply(self, step: ReplayStep, example: Example, best: _Best) -> str:
        """Change the bank and finish the step in one transaction: a kill between the two would repeat or lose it."""
        detail = {
            "judged": best.judged,
            "incumbent_quality": round(best.incumbent_quality, 4),
            "source": example.source_engine,
        }
        if best.incumbent:
            result = "kept" if best.judged else "agreed"
            await asyncio.wrap_future(self.jobs.finish(step.id, "done", result, detail))
            self.material.store.examples.ledger.note_quality(example.id, best.incumbent_quality)
            return result
        replacement = Replacement(
            tenant=example.tenant,
            example_id=example.id,
            run_id=step.run_id,
            incumbent=example.answer,
            answer=best.answer,
            source_engine=best.engine,
            completion_tokens=estimated_tokens(best.answer),
            # The reference's own answer is the standard.
            quality=1.0,
        )

        replaced = await asyncio.wrap_future(
            self.material.store.examples.versions.replace(replacement, step.id, detail)
        )
        return "replaced" if replaced else "changed_meanwhile"
