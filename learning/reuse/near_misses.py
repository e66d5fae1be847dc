"""Pairs that were nearly reused are judged in the background; a pair that passes shares one remembered answer from then on.

After the idea of Krites (arXiv 2602.13165): verify off the path what a threshold cannot decide, and promote what passes. A
near miss is a comparison in which the fresh answer of the reference engine was not the remembered one to the letter. A judge
says whether the remembered one answers the new question as well. If so, the new question becomes an alias: whoever asks the
like of it finds the entry of the old one, with all that is known of it. Whether it is then reused the proofs decide as
before (docs/semantic-reuse.md): an alias brings comparisons together and loosens nothing. Off by default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from prometheus_client import CollectorRegistry, Counter

from engines.asking import Bill, NotAnswered, ask, chat_of, most_usd
from engines.engine import Engine
from learning.outcomes.judge import TIE_BAND, Vote, judge_prompt, judgement, read_verdict, vote
from learning.outcomes.spend import Spend

log = structlog.get_logger(__name__)

_MAX_QUEUED = 100
_VERDICT_TOKENS = 300
_LOOK_AGAIN_S = 0.25


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A pair that was compared and not found the same. It holds content: in memory only, and not for long."""

    tenant: str
    request_id: str
    messages: tuple[Mapping[str, Any], ...]
    question: str
    same_otherwise: bytes
    entry_id: int
    remembered: str
    fresh: str


class Aliases(Protocol):
    """What is needed of store.answers.semantic_entries.SemanticAliases."""

    def add(
        self, tenant: str, request_id: str, question: str, same_otherwise: bytes, entry_id: int
    ) -> Future[bool]: ...


PURPOSE = "near_miss"
"""What its requests are called in the report of costs."""

Book = Callable[[str, str, str, float], object]
"""(tenant, engine, purpose, US dollars): noted by store.jobs.replay.side_costs."""


class NearMisses:
    """`take` from any thread between `start` and `aclose`; those two on the event loop."""

    def __init__(
        self,
        judge: Engine,
        aliases: Aliases,
        spend: Spend,
        registry: CollectorRegistry,
        book: Book,
        *,
        votes: int = 2,
        tie: float = TIE_BAND,
        fields: Mapping[str, Any] | None = None,
        pause_above: float = 0.8,
    ) -> None:
        """`book` notes what a vote cost. `votes` per order. `fields`: further ones of the judge's requests."""
        self._judge = judge
        self._aliases = aliases
        self._spend = spend
        self._book = book
        self._votes = votes
        self._tie = tie
        self._fields = dict(fields or {})
        self._pause_above = pause_above
        self._queue: asyncio.Queue[NearMiss] = asyncio.Queue(_MAX_QUEUED)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: asyncio.Task[None] | None = None
        self._results = Counter(
            "understudy_near_misses",
            "Pairs that were nearly reused, by what the judge made of them.",
            ["result"],
            registry=registry,
        )
        self._cost = Counter(
            "understudy_near_misses_cost_usd",
            "Cost of judging them in US dollars.",
            ["engine"],
            registry=registry,
        )

    def start(self) -> None:
        """Begin to judge."""
        self._loop = asyncio.get_running_loop()
        self._running = self._loop.create_task(self._work(), name="near misses")

    async def aclose(self) -> None:
        """Stop at once; what waits is forgotten. Before the engines are closed."""
        running, self._running, self._loop = self._running, None, None
        if running is not None:
            running.cancel()
            await asyncio.wait([running])

    def take(self, near: NearMiss) -> None:
        """Have a pair judged some time. Never waits, never raises."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._put, near)

    def _put(self, near: NearMiss) -> None:
        try:
            self._queue.put_nowait(near)
        except asyncio.QueueFull:
            self._results.labels("queue_full").inc()

    async def _work(self) -> None:
        while True:
            near = await self._queue.get()
            try:
                result = await self._judged(near)
            except NotAnswered:
                result = "unanswered"
            except Exception as error:
                result = "failed"
                log.error("near_miss_failed", request=near.request_id, error=error)
            self._results.labels(result).inc()

    async def _judged(self, near: NearMiss) -> str:
        votes: list[Vote] = []
        for number in range(2 * self._votes):
            verdict = await self._verdict(near, number)
            if verdict is None:
                return "over_budget"
            votes += verdict
        found = judgement(votes, tie=self._tie)
        if found is None:
            return "unread"
        if found.result == "loss":
            return "refused"
        kept = await asyncio.wrap_future(
            self._aliases.add(near.tenant, near.request_id, near.question, near.same_otherwise, near.entry_id)
        )
        return "promoted" if kept else "gone"

    async def _room(self) -> None:
        """Wait until the judge is not pressed."""
        while True:
            load = self._judge.load()
            if load.open and load.utilisation <= self._pause_above:
                return
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _verdict(self, near: NearMiss, number: int) -> list[Vote] | None:
        """One vote on the remembered answer, or none that could be read; None where there is no money left for it."""
        engine, ours_first = self._judge, number % 2 == 0
        await self._room()
        first, second = (near.remembered, near.fresh) if ours_first else (near.fresh, near.remembered)
        prompt = judge_prompt(near.messages, first, second, reading=number // 2 + 1)
        info = engine.info
        bound = {} if "max_completion_tokens" in self._fields else {"max_tokens": _VERDICT_TOKENS}
        chat = chat_of({"model": info.model or info.name, **bound, **self._fields}, prompt.messages)
        most = most_usd(info.price, len(chat.body), _VERDICT_TOKENS)
        if not self._spend.reserve(most):
            return None
        bill = Bill({})
        try:
            said = await ask(engine, chat, most_tokens=_VERDICT_TOKENS, bill=bill, purpose=PURPOSE)
        finally:
            self._spend.settle(most, bill.usd)
            self._cost.labels(info.name).inc(bill.usd)
            self._book(near.tenant, info.name, PURPOSE, bill.usd)
        verdict = read_verdict(said.text, prompt.code)
        return [] if verdict is None else [vote(verdict, ours_first=ours_first)]


Take = Callable[[NearMiss], None]
