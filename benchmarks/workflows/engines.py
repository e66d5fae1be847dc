"""What both sides ask: models that batch, components at their pace, a database that takes its time."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.batching.batch import Rules
from benchmarks.batching.engine import BatchingEngine, Served
from benchmarks.workflows.applications import CORE, EMBEDDER, RERANKER, SMALL, WEB
from benchmarks.workflows.constants import LLAMA_7B, Calibration
from benchmarks.workflows.speaking import says
from engines.components.batch import EffectiveBatch
from engines.components.component import SimulatedPace
from engines.components.running import Answers, Portion
from engines.engine import EngineInfo, EngineRequest
from loadtest.applications.shapes import words
from simulation.components import SimulatedComponent
from workflows.running.vector_table import Hit, VectorTable

_DIMENSIONS = 32


@dataclass(frozen=True, slots=True)
class OneServed:
    """One answer of a model."""

    model: str
    prompt_tokens: int
    cached_tokens: int
    answer_tokens: int


@dataclass(slots=True)
class Log:
    """What the models served."""

    served: list[OneServed] = field(default_factory=list)

    def note(self, served: Served, request: EngineRequest) -> None:
        """See BatchingEngine."""
        assert request.chat is not None
        fields = request.chat.fields
        tokens = served.prompt_tokens, served.cached_tokens, served.answer_tokens
        self.served.append(OneServed(str(fields["model"]), *tokens))

    def cached_documents(self, before_tokens: int, document_tokens: int) -> float:
        """Of the document tokens in prompts that hold a whole document behind so many others, the share that a cache had."""
        holding = [one for one in self.served if one.prompt_tokens > document_tokens]
        tokens = sum(min(max(0, one.cached_tokens - before_tokens), document_tokens) for one in holding)
        return tokens / (document_tokens * len(holding)) if holding else 0.0


class Paced(SimulatedComponent):
    """Counts how long it is at work, and finds texts on the web that are as long as is told."""

    def __init__(self, name: str, pace: SimulatedPace, hit_tokens: int) -> None:
        super().__init__(name, pace)
        self.busy_s = 0.0
        self.sizes: list[int] = []
        self._hit_tokens = hit_tokens

    async def embed(self, portions: Sequence[Portion[str]]) -> Sequence[Answers[Any]]:
        """See engines.components.running.Ask: any vector of the text's own."""
        await self._takes_time(portions)
        return [[_vector(text) for text in portion.items] for portion in portions]

    async def search(self, portions: Sequence[Portion[str]]) -> Sequence[Answers[list[str]]]:
        """See engines.components.running.Ask."""
        await self._takes_time(portions)
        return [
            [[words(f"{query}/{place}", self._hit_tokens).strip() for place in range(portion.question)]]
            for portion in portions
            for query in portion.items
        ]

    async def _takes_time(self, portions: Sequence[Portion[str]]) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await super()._takes_time(portions)
        self.busy_s += loop.time() - began_s
        self.sizes.append(sum(len(portion.items) for portion in portions))


@lru_cache(maxsize=65_536)
def _vector(text: str) -> NDArray[np.float32]:
    """Of length 1."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    row = np.random.default_rng(int.from_bytes(digest)).standard_normal(_DIMENSIONS)
    return (row / np.linalg.norm(row)).astype(np.float32)


class Database:
    """One, which does one statement at a time."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._lock = asyncio.Lock()

    async def statement(self, items: int) -> None:
        """Of so many rows or queries."""
        async with self._lock:
            await asyncio.sleep(
                self._calibration.database_fixed_s + items * self._calibration.database_item_s
            )


class PacedIndex:
    """A table of the database. See workflows.running.indexes.RunIndex."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._table = VectorTable()

    async def add(self, place: int, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Rows."""
        await self._database.statement(len(texts))
        self._table.add(place, texts, vectors)

    async def search(self, vector: NDArray[np.float32], k: int) -> list[Hit]:
        """One query."""
        await self._database.statement(1)
        return await self._table.search(vector, k)


@dataclass(frozen=True, slots=True)
class World:
    """All engines of one side. For one event loop."""

    calibration: Calibration
    models: dict[str, list[BatchingEngine]]
    components: dict[str, Paced]
    database: Database
    log: Log


def world_of(calibration: Calibration, rules: Rules) -> World:
    """Idle ones; the models run by these rules."""
    log = Log()
    speeds = {CORE: calibration.speed, SMALL: LLAMA_7B}
    paces = {EMBEDDER: calibration.embedder, RERANKER: calibration.reranker, WEB: calibration.web}
    return World(
        calibration,
        {
            name: [
                BatchingEngine(EngineInfo(name, replica=f"{name}-{n}"), speed, rules, log.note, says)
                for n in range(calibration.replicas)
            ]
            for name, speed in speeds.items()
        },
        {name: Paced(name, pace, calibration.web_hit_tokens) for name, pace in paces.items()},
        Database(calibration),
        log,
    )


@cache
def effective_batch(pace: SimulatedPace) -> int:
    """What the product's own measurement comes to: doubled until throughput gains less than 5 %."""
    batch = EffectiveBatch()
    while not batch.known:
        size = batch.to_send
        batch.took(size, pace.fixed_s + pace.per_item_s * size)
    return batch.size


def batches(calibration: Calibration) -> dict[str, int]:
    """The effective batch of each component."""
    paces = {EMBEDDER: calibration.embedder, RERANKER: calibration.reranker}
    return {**{name: effective_batch(pace) for name, pace in paces.items()}, WEB: 1}
