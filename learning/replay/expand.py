"""Expand: where an example stands alone, a generator varies its question and the reference engine answers (EchoLM §4.3.1).

A variation joins the bank if it is neither a duplicate nor about something else (by embedding), if the rules of admission
let it, and if a judge finds the reference's answer better than what the small engine says without help: an example of what
that engine can do alone teaches it nothing. Only the tenant's own example is read, and what is written is the same tenant's
and the same contributor's, so that it is deleted with what it was made from.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from engines.asking import Said, chat_of
from engines.chat import estimated_tokens
from learning.replay.asking import Asking
from learning.replay.material import Engines, Material, request
from learning.replay.variations import expansion_prompt, fit, read_variations
from learning.replay.verdicts import Judge
from router.digest import asked_under
from store.admission.cutting import EMBEDDED_CHARACTERS, cut
from store.examples.gains import vectors_of
from store.examples.vectors import from_blob
from store.examples.versions import add_variation
from store.jobs.replay_jobs import ReplayJobs, finish_step
from store.jobs.replay_records import ReplayStep
from store.records import Example, NewExample, Vector

_GENERATED_TOKENS = 120
"""Per variation asked for."""


class Embedder(Protocol):
    """What is needed of router.embedding.embedder.Embedder."""

    @property
    def version(self) -> str: ...

    def embed_blocking(self, text: str) -> Vector: ...


class Expand:
    """Work of kind `expand` (learning.replay.run.StepWork)."""

    def __init__(
        self,
        material: Material,
        jobs: ReplayJobs,
        judge: Judge,
        embedder: Embedder,
        *,
        variations: int = 3,
        duplicate_above: float = 0.95,
        drift_below: float = 0.4,
        max_tokens: int = 1024,
        embedded_characters: int = EMBEDDED_CHARACTERS,
    ) -> None:
        """Similarities are cosines of questions: see learning.replay.variations.fit."""
        self._material = material
        self._jobs = jobs
        self._judge = judge
        self._embedder = embedder
        self._variations = variations
        self._duplicate_above = duplicate_above
        self._drift_below = drift_below
        self._max_tokens = max_tokens
        self._embedded_characters = embedded_characters

    async def __call__(self, step: ReplayStep, asking: Asking) -> str:
        """See StepWork."""
        material = self._material
        parent = await asyncio.to_thread(material.example, step.plan.tenant, step.plan.example_id)
        if parent is None:
            return await self._skip(step, "gone")
        instructions = await asyncio.to_thread(material.instructions, parent)
        engines = material.engines_for(parent)
        if instructions is None or engines is None or engines.small is None:
            return await self._skip(step, "instructions_not_kept" if engines else "no_engine")
        came_of: Counter[str] = Counter()
        written: list[NewExample] = []
        accepted: list[Vector] = []
        for number, asked in enumerate(await self._varied(asking, parent, engines)):
            vector = await asyncio.to_thread(self._vector, asked)
            fits = await asyncio.to_thread(self._fit, parent, vector, accepted)
            if fits != "fits":
                came_of[fits] += 1
                continue
            new, why = await self._answered(
                step, asking, number, parent, instructions, engines, asked, vector
            )
            came_of[why] += 1
            if new is not None:
                written.append(new)
                accepted.append(vector)
        return await self._apply(step, parent, written, engines, came_of)

    async def _varied(self, asking: Asking, parent: Example, engines: Engines) -> list[str]:
        """Variations, as the generator gave them."""
        prompt = expansion_prompt(parent.question, self._variations)
        most = _GENERATED_TOKENS * self._variations
        info = engines.generator.info
        chat = chat_of({"model": info.model or info.name, "max_tokens": most}, prompt.messages)

        def read(said: Said) -> str:
            # Read at once: the code that they came with is known to nobody after a kill.
            return "\n".join(read_variations(said.text, prompt.code, self._variations))

        found = await asking.ask(
            "generate", engines.generator, chat, most_tokens=most, purpose="generate", read=read
        )
        return found.splitlines()

    async def _answered(
        self,
        step: ReplayStep,
        asking: Asking,
        number: int,
        parent: Example,
        instructions: str,
        engines: Engines,
        asked: str,
        vector: Vector,
    ) -> tuple[NewExample | None, str]:
        """The example that a variation becomes, or None, and why."""
        assert engines.small is not None
        fields = asked_under(instructions, asked)
        answers = {}
        for name, engine in (("answer", engines.reference), ("alone", engines.small)):
            chat = request(engine, instructions, asked, max_tokens=self._max_tokens)
            answers[name] = await asking.ask(
                f"{name}/{number}", engine, chat, most_tokens=self._max_tokens, purpose="answer"
            )
        verdict = await asyncio.to_thread(self._material.admitted, fields, answers["answer"])
        if not verdict.admitted:
            return None, f"refused_{verdict.reason}"
        found = await self._judge.compare(
            asking, f"verdict/{number}", fields["messages"], verdict.answer, answers["alone"]
        )
        if found is None:
            return None, "unread"
        if found.result != "win":
            return None, "teaches_nothing" if found.result == "tie" else "worse"
        redacted = verdict.question != asked
        return NewExample(
            tenant=parent.tenant,
            scope=parent.scope,
            question=verdict.question,
            answer=verdict.answer,
            embedded_text=verdict.embedded_text,
            vector=await asyncio.to_thread(self._vector, verdict.embedded_text) if redacted else vector,
            embedding_version=self._embedder.version,
            source_engine=engines.reference.info.name,
            request_id=f"replay-{step.id}-{number}",
            prompt_tokens=estimated_tokens(asked),
            completion_tokens=estimated_tokens(verdict.answer),
            contributor=parent.contributor,
            served_from_s=parent.served_from_s,
            quality=1.0,
        ), "added"

    def _vector(self, text: str) -> Vector:
        return self._embedder.embed_blocking(cut(text, self._embedded_characters))

    def _fit(self, parent: Example, vector: Vector, accepted: list[Vector]) -> str:
        store = self._material.store
        assert store.indexes is not None
        near = [similarity for _, similarity in store.indexes.nearest(parent.tenant, vector, 1)]
        blob = vectors_of(store.db, parent.tenant, [parent.id], self._embedder.version).get(parent.id)
        own = from_blob(blob) if blob is not None else self._vector(parent.question)
        return fit(
            float(np.dot(own, vector)),
            [*near, *(float(np.dot(other, vector)) for other in accepted)],
            duplicate_above=self._duplicate_above,
            drift_below=self._drift_below,
        )

    async def _apply(
        self,
        step: ReplayStep,
        parent: Example,
        written: list[NewExample],
        engines: Engines,
        came_of: Counter[str],
    ) -> str:
        generator = engines.generator.info.name

        def apply(connection: Any) -> str:
            added = [
                add_variation(
                    connection,
                    new,
                    parent_id=parent.id,
                    run_id=step.run_id,
                    generator=generator,
                    now_s=time.time(),
                )
                for new in written
            ]
            result = "expanded" if any(added) else "nothing_new"
            finish_step(connection, step.id, "done", result, {"came_of": dict(came_of)})
            return result

        write: Callable[[Callable[[Any], str]], Any] = self._material.store.examples.write
        await asyncio.wrap_future(self._jobs.finish(step.id, "paid", ""))
        result: str = await asyncio.wrap_future(write(apply))
        return result

    async def _skip(self, step: ReplayStep, why: str) -> str:
        await asyncio.wrap_future(self._jobs.finish(step.id, "skipped", why))
        return why
