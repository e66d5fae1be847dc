"""LlamaDist and LlamaDistPC, as section 7 of Teola describes them: module after module, each in one call of its engine.

They read the same definitions, so that prompts and answers are the same as the gateway's. Per-call oriented, an engine takes
one call after the other, four requests at a time; throughput oriented, it takes requests of all calls in order of arrival,
as many at a time as its throughput gains from. LlamaDistPC does by hand at once what is independent, and its models have a
prefix cache.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.applications.client_side import LeastQueue
from benchmarks.batching.batch import Rules
from benchmarks.workflows.applications import EMBEDDER, RERANKER, WEB, Application
from benchmarks.workflows.constants import Calibration
from benchmarks.workflows.engines import PacedIndex, World, batches, world_of
from engines.components import tokens
from engines.components.running import Ask, Portion
from workflows.compute import cut
from workflows.definition import Definition, StepSpec
from workflows.template import fill, names_in
from workflows.transform import Value, as_text


@dataclass(frozen=True, slots=True)
class Scheme:
    """One baseline."""

    by_hand: bool
    """LlamaDistPC."""
    per_call: bool

    @property
    def name(self) -> str:
        """As in the paper."""
        oriented = "per call" if self.per_call else "throughput"
        return f"{'LlamaDistPC' if self.by_hand else 'LlamaDist'}, {oriented}"


SCHEMES = tuple(Scheme(by_hand, per_call) for by_hand in (False, True) for per_call in (True, False))


@dataclass(slots=True)
class _Call:
    portion: Portion[Any]
    answers: list[Any]
    done: asyncio.Future[list[Any]]
    taken: int = 0
    left: int = field(default=0)


class Instance:
    """One instance of a component, which carries out one batch at a time."""

    def __init__(self, ask: Ask[Any, Any], batch: int, *, per_call: bool) -> None:
        self._ask = ask
        self._batch = batch
        self._per_call = per_call
        self._calls: deque[_Call] = deque()
        self._task: asyncio.Task[None] | None = None

    async def call(self, portion: Portion[Any]) -> list[Any]:
        """An answer for each item."""
        if not portion.items:
            return []
        done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._calls.append(_Call(portion, [None] * len(portion.items), done, left=len(portion.items)))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._serve())
        return await done

    async def _serve(self) -> None:
        # What comes at the same moment may share a batch.
        await asyncio.sleep(0)
        while self._calls:
            parts = self._next()
            found = await self._ask(
                [Portion(call.portion.question, call.portion.items[at : at + n]) for call, at, n in parts]
            )
            for (call, at, n), answers in zip(parts, found, strict=True):
                assert isinstance(answers, Sequence)
                call.answers[at : at + n] = answers
                call.left -= n
                if not call.left:
                    call.done.set_result(call.answers)
        self._task = None

    def _next(self) -> list[tuple[_Call, int, int]]:
        parts, room = [], self._batch
        while self._calls and room:
            call = self._calls[0]
            many = min(room, len(call.portion.items) - call.taken)
            parts.append((call, call.taken, many))
            call.taken += many
            room -= many
            if call.taken == len(call.portion.items):
                self._calls.popleft()
            if self._per_call:
                break
        return parts


class Baseline:
    """Carries applications out. For one event loop."""

    def __init__(self, calibration: Calibration, scheme: Scheme) -> None:
        most = calibration.per_call_batch if scheme.per_call else 256
        self.world: World = world_of(calibration, Rules(prefix_cache=scheme.by_hand, max_running=most))
        self._scheme = scheme
        self._models = {name: LeastQueue(engines) for name, engines in self.world.models.items()}
        embed, rerank = self.world.components[EMBEDDER].embed, self.world.components[RERANKER].rerank
        self._embedder = self._instance(EMBEDDER, embed)
        self._reranker = self._instance(RERANKER, rerank)
        self._web_places = asyncio.Semaphore(calibration.web_at_once)

    def _instance(self, name: str, ask: Ask[Any, Any]) -> Instance:
        calibration, per_call = self.world.calibration, self._scheme.per_call
        batch = calibration.per_call_batch if per_call else batches(calibration)[name]
        return Instance(ask, batch, per_call=per_call)

    async def run(self, application: Application, definition: Definition, inputs: Mapping[str, Value]) -> str:
        """The answer."""
        known: dict[str, Any] = dict(inputs)
        for group in application.by_hand:
            if self._scheme.by_hand:
                async with asyncio.TaskGroup() as tasks:
                    for branch in group:
                        tasks.create_task(self._branch(definition, branch, known))
            else:
                for branch in group:
                    await self._branch(definition, branch, known)
        return as_text(known[definition.output])

    async def _branch(self, definition: Definition, branch: Sequence[str], known: dict[str, Any]) -> None:
        for name in branch:
            step, _, part = name.partition(".")
            spec = definition.steps[step]
            if part or self._taken(spec, known):
                known[name] = await getattr(self, f"_{part or spec.kind}")(spec, known)

    def _taken(self, spec: StepSpec, known: Mapping[str, Any]) -> bool:
        if spec.condition is None:
            return True
        name, wanted = spec.condition
        return bool(known[name] == ("true" if wanted else "false"))

    # ---- modules

    async def _split(self, spec: StepSpec, known: Mapping[str, Any]) -> list[str]:
        texts = known[spec.over[0]]
        return [
            piece for text in texts for piece in cut(text, tokens.offsets(text), spec.tokens, spec.overlap)
        ]

    async def _ingest(self, spec: StepSpec, known: Mapping[str, Any]) -> PacedIndex:
        texts = known[spec.over[0]]
        index = PacedIndex(self.world.database)
        await index.add(0, texts, await self._embedder.call(Portion(None, texts)))  # type: ignore[arg-type]
        return index

    async def _embed(self, spec: StepSpec, known: Mapping[str, Any]) -> list[Any]:
        value = known[spec.over[0]]
        return await self._embedder.call(Portion(None, [value] if isinstance(value, str) else value))

    async def _search(self, spec: StepSpec, known: Mapping[str, Any]) -> list[str]:
        if spec.index.startswith("component:"):
            async with self._web_places:
                portion = Portion(spec.k, [known[spec.over[0]]])
                (found,) = await self.world.components[WEB].search([portion])
            assert isinstance(found, Sequence)
            return list(found[0])
        rows = known.get(f"{spec.name}.embed")
        if rows is None:
            rows = await self._embed(spec, known)
        index = known[spec.index.partition(":")[2]]
        hits = [text for row in rows for text, _, _ in await index.search(row, spec.k)]
        return list(dict.fromkeys(hits))

    async def _rerank(self, spec: StepSpec, known: Mapping[str, Any]) -> list[str]:
        texts = known[spec.over[0]]
        scores = await self._reranker.call(Portion(known[spec.by], texts))
        best = sorted(range(len(texts)), key=lambda place: (-scores[place], place))
        return [texts[place] for place in best[: spec.k]]

    async def _chat(self, spec: StepSpec, known: Mapping[str, Any]) -> Value:
        text = await self._asked(spec, spec.messages, known)
        return text if spec.splits is None else [str(each) for each in json.loads(text)]

    async def _map(self, spec: StepSpec, known: Mapping[str, Any]) -> list[str]:
        asked = [self._asked(spec, spec.messages, {**known, "item": item}) for item in known[spec.over[0]]]
        return list(await asyncio.gather(*asked))

    async def _fold(self, spec: StepSpec, known: Mapping[str, Any]) -> str:
        so_far = spec.initial
        for place, item in enumerate(known[spec.over[0]]):
            messages = spec.first if spec.first and not place else spec.messages
            so_far = await self._asked(spec, messages, {**known, "item": item, "so_far": so_far})
        return so_far

    async def _when(self, spec: StepSpec, known: Mapping[str, Any]) -> str:
        return "true" if as_text(known[spec.over[0]]) == spec.test[1] else "false"

    async def _first_of(self, spec: StepSpec, known: Mapping[str, Any]) -> Any:
        return next(known[name] for name in spec.over if name in known)

    async def _merge(self, spec: StepSpec, known: Mapping[str, Any]) -> list[str]:
        return [text for name in spec.over for text in known[name]]

    async def _asked(self, spec: StepSpec, messages: Any, known: Mapping[str, Any]) -> str:
        filled = fill(messages, {name: as_text(known[name]) for name in names_in(messages)})
        fields = {**spec.params, "model": spec.model, "messages": list(filled.messages)}
        return await self._models[spec.model].ask(fields)
