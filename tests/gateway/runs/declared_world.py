"""Engines, components and indexes that answer by content alone, for runs of workflows over the executor itself.

What they say is tests.workflows.definitions.Answers'; when they say it is drawn, so that steps end in any order.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import orjson
from multidict import CIMultiDict
from numpy.typing import NDArray

from benchmarks.runs_store import OpenedRuns
from engines.components.component import ComponentError, Work
from gateway.runs.caller import Caller
from gateway.runs.indexes import Hit
from gateway.runs.live import LiveRun
from gateway.runs.means import Means
from gateway.runs.runs import Runs
from gateway.runs.workflow import NewWorkflow
from gateway.send import Send
from router.asked import Asked
from router.finished import Finished, Outcome
from store.workflows.runs import WorkflowRuns
from tests.gateway.runs.carried_out import KNOBS, TENANT
from tests.gateway.serving import open_admission
from tests.workflows.definitions import Answers, Refused
from workflows.definition import Definition, Splits
from workflows.plan import Profile
from workflows.transform import Value


class World:
    """`pause_s`: an answer takes up to three of these, drawn from `seed`, and as many turns of the loop. `splits`: of the
    steps whose answer is a list."""

    def __init__(self, answers: Answers, seed: int = 0, pause_s: float = 0.0) -> None:
        self.answers = answers
        self.pause_s = pause_s
        self.under_way: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        """How often each tool with effects was asked, by its idempotency key."""
        self.chats: list[Asked] = []
        self.splits: Mapping[str, Splits] = {}
        self._random = random.Random(seed)

    async def pause(self, who: str) -> None:
        """Take a while."""
        self.under_way[who] += 1
        try:
            turns = self._random.randrange(4)
            if self.pause_s:
                await asyncio.sleep(self.pause_s * turns)
            for _ in range(turns):
                await asyncio.sleep(0)
        finally:
            self.under_way[who] -= 1

    # ---- engines

    async def answer(self, asked: Asked, send: Send) -> Finished:
        """As Pipeline.answer: the text in several chunks."""
        self.chats.append(asked)
        messages = asked.chat.messages
        prompt = orjson.dumps([[m["role"], m["content"]] for m in messages]).decode()
        self.asked[prompt] += 1
        await self.pause("chat")
        try:
            splits = self.splits.get(asked.placement.step)
            text = self.answers.chat(messages, splits)
        except Refused:
            error = orjson.dumps({"error": {"message": "it is refused"}})
            send.whole(400, CIMultiDict({"Content-Type": "application/json"}), error)
            return finished(asked, Outcome.UPSTREAM_ERROR, 400)
        write = await send.begin(200, CIMultiDict({"Content-Type": "text/event-stream"}))
        place = 0
        while place < len(text):
            size = self._random.randint(1, 12)
            await write(chunk({"choices": [{"index": 0, "delta": {"content": text[place : place + size]}}]}))
            await self.pause("chat")
            place += size
        await write(chunk({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}))
        await write(b"data: [DONE]\n\n")
        await send.end()
        return finished(asked, Outcome.ANSWERED, 200)

    # ---- components

    async def embed(self, name: str, texts: Sequence[str], work: Work) -> NDArray[np.float32]:
        """As Components."""
        await self.pause(name)
        rows = self._said(name, lambda: self.answers.embed(texts))
        return np.asarray(rows, dtype=np.float32).reshape(len(texts), -1)

    async def rerank(self, name: str, query: str, texts: Sequence[str], work: Work) -> list[float]:
        """As Components."""
        await self.pause(name)
        return list(self._said(name, lambda: self.answers.rerank(query, texts)))

    async def search(self, name: str, query: str, k: int, work: Work) -> list[str]:
        """As Components."""
        await self.pause(name)
        return list(self._said(name, lambda: self.answers.search(query, k)))

    async def call(
        self, name: str, args: Mapping[str, Any], work: Work, idempotency_key: str, may_retry: bool
    ) -> str:
        """As Components."""
        if not may_retry:
            self.effects[idempotency_key] += 1
        await self.pause(name)
        return str(self._said(name, lambda: self.answers.call(name, args)))

    def _said(self, name: str, say: Any) -> Any:
        try:
            return say()
        except Refused as error:
            raise ComponentError("it is refused", component=name) from error

    def offsets(self, name: str, text: str) -> list[tuple[int, int]]:
        """A token is a character."""
        return [(place, place + 1) for place in range(len(text))]

    def effective_batch(self, name: str) -> int:
        """Of any component."""
        return 2

    def identity(self, name: str) -> str:
        """Of any component."""
        return name

    def start(self) -> None:
        """Nothing to begin."""

    async def aclose(self) -> None:
        """Nothing to end."""

    # ---- indexes

    def of_run(self, run: str) -> MemoryIndex:
        """As Indexes."""
        return MemoryIndex()

    def collection(
        self, tenant: str, name: str, *, embedder: str, contributor: str, source: str
    ) -> MemoryIndex:
        """As Indexes."""
        raise NotImplementedError


class MemoryIndex:
    """Exact, by distance and then place."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[str, NDArray[np.float32]]] = {}

    async def add(self, place: int, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """As RunIndex."""
        for offset, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
            self.held[place + offset] = (text, vector)

    async def search(self, vector: NDArray[np.float32], k: int) -> list[Hit]:
        """As RunIndex."""
        found = [
            (float(np.sum((np.asarray(vector) - held) ** 2)), place, text)
            for place, (text, held) in self.held.items()
        ]
        return [(text, distance, place) for distance, place, text in sorted(found)[:k]]


def chunk(content: Mapping[str, Any]) -> bytes:
    """An event of a chat completion's stream."""
    return b"data: " + orjson.dumps(content) + b"\n\n"


def finished(asked: Asked, outcome: Outcome, status: int) -> Finished:
    """What the pipeline gives."""
    return Finished(arrival=asked.arrival, outcome=outcome, status=status, engine="e", asked=asked)


def means_of(world: World) -> Means:
    """What the executor carries steps out with."""
    return Means(world, world, lambda: Profile({"local": 2, "reranker": 2}))


@asynccontextmanager
async def flows_over(
    world: World, store: WorkflowRuns | None = None, *, shared: bool = False, owner: str | None = None
) -> AsyncIterator[Runs]:
    """An executor of workflows, which is closed afterwards."""
    made = Runs(
        world.answer,
        open_admission(),
        store or OpenedRuns(),
        KNOBS,
        shared=shared,
        owner=owner,
        means=means_of(world),
    )
    made.start()
    try:
        yield made
    finally:
        await made.aclose(grace_s=0)


async def begun(runs: Runs, definition: Definition, inputs: Mapping[str, Value], **more: Any) -> LiveRun:
    """A run of a workflow."""
    caller = Caller(TENANT, headers=CIMultiDict({"Content-Type": "application/json"}))
    run = await runs.begin_workflow(NewWorkflow(caller, definition, inputs, **more))
    assert isinstance(run, LiveRun)
    return run
