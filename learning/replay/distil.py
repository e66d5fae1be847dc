"""Distil: the reference engine answers an example's question again, a few times, and the best answer stays (EchoLM §4.3.1).

What the bank says to the same question elsewhere is compared first, since it costs nothing to ask. An answer takes the
incumbent's place only if a judge finds it better, in both orders and by more than a tie; the old one can be restored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engines.chat import estimated_tokens
from learning.outcomes.judge import quality
from learning.replay.asking import Asking
from learning.replay.material import Engines, Material, request
from learning.replay.verdicts import Judge
from router.digest import asked_under
from store.examples.twins import agrees
from store.examples.versions import Replacement, replaceable
from store.jobs.replay_jobs import ReplayJobs
from store.jobs.replay_records import ReplayStep
from store.records import Example


@dataclass(slots=True)
class _Champion:
    answer: str
    engine: str
    incumbent_quality: float = 1.0
    """Of the incumbent, as the judge sees it beside the best other answer."""
    judged: int = 0
    incumbent: bool = True


class Distil:
    """Work of kind `distil` (learning.replay.run.StepWork)."""

    def __init__(
        self,
        material: Material,
        jobs: ReplayJobs,
        judge: Judge,
        *,
        samples: int = 3,
        max_tokens: int = 1024,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """`samples`: answers asked for at most. `fields`: further ones of those requests, such as a temperature."""
        self._material = material
        self._jobs = jobs
        self._judge = judge
        self._samples = samples
        self._max_tokens = max_tokens
        self._fields = dict(fields or {})

    async def __call__(self, step: ReplayStep, asking: Asking) -> str:
        """See StepWork."""
        material = self._material
        example = await asyncio.to_thread(material.example, step.plan.tenant, step.plan.example_id)
        if example is None or not replaceable(example):
            return await self._skip(step, "gone" if example is None else "held")
        instructions = await asyncio.to_thread(material.instructions, example)
        engines = material.engines_for(example)
        if instructions is None or engines is None:
            return await self._skip(step, "instructions_not_kept" if engines else "no_engine")
        best = await self._best(step, asking, example, instructions, engines)
        return await self._apply(step, example, best)

    async def _best(
        self, step: ReplayStep, asking: Asking, example: Example, instructions: str, engines: Engines
    ) -> _Champion:
        material = self._material
        fields = asked_under(instructions, example.question)
        best = _Champion(example.answer, example.source_engine)
        seen = [example.answer]
        for number, answer in enumerate(await asyncio.to_thread(material.twins_answers, example)):
            if not any(agrees(answer, known) for known in seen):
                seen.append(answer)
                await self._challenge(asking, f"twin/{number}", fields, best, answer, example.source_engine)
        reference = engines.reference
        for number in range(self._samples):
            chat = request(
                reference, instructions, example.question, max_tokens=self._max_tokens, **self._fields
            )
            answer = await asking.ask(
                f"answer/{number}", reference, chat, most_tokens=self._max_tokens, purpose="answer"
            )
            verdict = await asyncio.to_thread(material.admitted, fields, answer)
            if not verdict.admitted:
                continue
            if any(agrees(verdict.answer, known) for known in seen):
                # Two that were given independently say the same: a third would tell little.
                break
            seen.append(verdict.answer)
            await self._challenge(
                asking, f"sample/{number}", fields, best, verdict.answer, reference.info.name
            )
        return best

    async def _challenge(
        self,
        asking: Asking,
        key: str,
        fields: Mapping[str, Any],
        best: _Champion,
        answer: str,
        engine: str,
    ) -> None:
        """Have an answer compared with the best so far; it takes its place if it is better."""
        found = await self._judge.compare(asking, f"verdict/{key}", fields["messages"], answer, best.answer)
        if found is None:
            return
        best.judged += 1
        if best.incumbent:
            best.incumbent_quality = min(best.incumbent_quality, quality(-found.score))
        if found.result == "win":
            best.answer, best.engine, best.incumbent = answer, engine, False

    async def _apply(self, step: ReplayStep, example: Example, best: _Champion) -> str:
        """Change the bank and say so in one transaction: a kill between the two would do it again, or never."""
        detail = {
            "judged": best.judged,
            "incumbent_quality": round(best.incumbent_quality, 4),
            "source": example.source_engine,
        }
        if best.incumbent:
            result = "kept" if best.judged else "agreed"
            await asyncio.wrap_future(self._jobs.finish(step.id, "done", result, detail))
            self._material.store.examples.ledger.note_quality(example.id, best.incumbent_quality)
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

        await asyncio.wrap_future(self._jobs.finish(step.id, "paid", ""))
        replaced = await asyncio.wrap_future(
            self._material.store.examples.versions.replace(replacement, step.id, detail)
        )
        return "replaced" if replaced else "changed_meanwhile"

    async def _skip(self, step: ReplayStep, why: str) -> str:
        await asyncio.wrap_future(self._jobs.finish(step.id, "skipped", why))
        return why
