"""Sends a step's requests to engines: nothing twice, nothing beyond the budget, nothing while traffic needs the engine.

Before a request is sent it is stored with the most it can cost; its answer is stored with what it did cost before anything
else happens. A run that is resumed after a kill finds what was paid for, and asks only for the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from engines.asking import Bill, NotAnswered, Said, ask, most_usd
from engines.chat import ChatRequest
from engines.engine import Engine
from learning.outcomes.judge import Judgement
from learning.outcomes.verdicts import Judge, VerdictRequest
from store.guarding import check_here
from store.jobs.replay_jobs import ReplayJobs
from store.jobs.replay_records import AskState, NewAsk, ReplayStep

_LOOK_AGAIN_S = 0.25
_BYTES_PER_TOKEN_AT_LEAST = 2
_UNREAD = "unread"
"""The stored form of a judge's reply without a verdict."""

MayGoOn = Callable[[], Awaitable[None]]
"""Returns when replay may ask an engine: at once while traffic is low, else once it is low again."""


class ReplayMetrics:
    """Series of one process. What a command on the side spends is in the store only (store.jobs.replay_jobs)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.asks = Counter(
            "understudy_replay_asks",
            "Requests of replay to engines, by what became of them.",
            ["engine", "purpose", "result"],
            registry=registry,
        )
        self.cost = Counter(
            "understudy_replay_cost_usd",
            "Cost of replay in US dollars: answers, new questions and verdicts.",
            ["engine", "purpose"],
            registry=registry,
        )
        self.tokens = Counter(
            "understudy_replay_tokens", "Tokens of replay.", ["engine", "kind"], registry=registry
        )
        self.steps = Counter(
            "understudy_replay_steps",
            "Examples replayed, by what came of it.",
            ["kind", "result"],
            registry=registry,
        )
        self.left = Gauge(
            "understudy_replay_steps_left",
            "Steps of the current run that are not done yet.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.running = Gauge(
            "understudy_replay_running",
            "Whether a run is under way: 1 while it asks, 0.5 while it waits for low traffic, 0 otherwise.",
            registry=registry,
            multiprocess_mode="livesum",
        )


async def always() -> None:
    """For a replay that is run by hand: at any time."""


def text_of(said: Said) -> str:
    """Return the text that is remembered of a plain answer. Raises NotAnswered for one that is empty or was cut short."""
    if said.finish_reason != "stop" or not said.text.strip():
        raise NotAnswered("cut_short" if said.text.strip() else "empty")
    return said.text


@dataclass(slots=True)
class Gate:
    """When a run may ask: while traffic is low, and while the engine itself has room."""

    may_go_on: MayGoOn = always
    pause_above: float = 0.8
    """Utilisation of an engine above which it is not asked, so that no request of replay ever stands in its queue."""
    waiting: int = 0
    """Requests that wait for either."""

    async def wait(self, engine: Engine) -> None:
        """Return when `engine` may be asked now."""
        self.waiting += 1
        try:
            await self.may_go_on()
            while _pressed(engine, self.pause_above):
                await asyncio.sleep(_LOOK_AGAIN_S)
                await self.may_go_on()
        finally:
            self.waiting -= 1


class Asking:
    """Asks one step's requests. A key that was paid for before gives the same answer again, at no cost."""

    def __init__(
        self, jobs: ReplayJobs, step: ReplayStep, gate: Gate, metrics: ReplayMetrics, paid: dict[str, str]
    ) -> None:
        """`paid`: what the step has paid for already, by key (ReplayAsks.paid)."""
        self._jobs = jobs
        self._step = step
        self._gate = gate
        self._metrics = metrics
        self._paid = dict(paid)

    async def ask(
        self,
        key: str,
        engine: Engine,
        chat: ChatRequest,
        *,
        most_tokens: int,
        purpose: str,
        read: Callable[[Said], str] = text_of,
    ) -> str:
        """Ask the engine and return what `read` makes of its answer; that is remembered until the step is done.

        `most_tokens`: the bound on the answer that `chat` carries. Raises NotAnswered (the engine gave no answer, or `read`
        could make nothing of it: paid all the same), BudgetSpent, StopAsked, LeaseOver, and what the store raises.
        """
        known = self._paid.get(key)
        if known is not None:
            return known
        await self._gate.wait(engine)
        id = await asyncio.wrap_future(
            self._jobs.asks.note(self._noted(key, engine, chat, most_tokens, purpose))
        )
        # A process that slept since then does not pay for what its successor pays for.
        check_here()
        bill, text = Bill({}), ""
        state: AskState = "unknown"
        said: Said | None = None
        try:
            said = await ask(engine, chat, most_tokens=most_tokens, bill=bill, purpose=purpose)
            state = "failed"
            text = read(said)
            state = "paid"
        except NotAnswered:
            state = "failed"
            raise
        finally:
            # Also when this is cancelled: then nobody knows what it cost, and it counts as the most it can have.
            written = self._write(id, state, bill, said, text)
            self._count(engine.info.name, purpose, state, bill, said)
        await asyncio.wrap_future(written)
        self._paid[key] = text
        return text

    async def compare(
        self, key: str, judge: Judge, messages: Sequence[Mapping[str, Any]], ours: str, other: str
    ) -> Judgement | None:
        """Judge how much better `ours` is than `other`; None unless each order has a verdict (Judge.compare).

        Each verdict is remembered under `key`. Raises what `ask` raises, but NotAnswered: it counts as no verdict.
        """

        async def verdict(request: VerdictRequest) -> int | None:
            def read(said: Said) -> str:
                found = request.read(said.text)
                return _UNREAD if found is None else str(found)

            try:
                known = await self.ask(
                    f"{key}/{request.number}",
                    judge.engine,
                    request.chat,
                    most_tokens=request.most_tokens,
                    purpose="verdict",
                    read=read,
                )
            except NotAnswered:
                return None
            return None if known == _UNREAD else int(known)

        return await judge.compare(verdict, messages, ours, other, only_wins=True)

    def _noted(self, key: str, engine: Engine, chat: ChatRequest, most_tokens: int, purpose: str) -> NewAsk:
        info = engine.info
        return NewAsk(
            run_id=self._step.run_id,
            step_id=self._step.id,
            tenant=self._step.plan.tenant,
            key=key,
            engine=info.name,
            purpose=purpose,
            most_usd=most_usd(info.price, len(chat.body), most_tokens),
            most_tokens=len(chat.body) // _BYTES_PER_TOKEN_AT_LEAST + 1 + most_tokens,
        )

    def _write(self, id: int, state: AskState, bill: Bill, said: Said | None, text: str) -> Future[None]:
        return self._jobs.asks.answered(
            id,
            state,
            cost_usd=0.0 if state == "unknown" else bill.usd,
            prompt_tokens=said.usage.prompt_tokens if said else 0,
            completion_tokens=said.usage.completion_tokens if said else 0,
            latency_s=said.latency_s if said else 0.0,
            text=text,
        )

    def _count(self, engine: str, purpose: str, state: str, bill: Bill, said: Said | None) -> None:
        self._metrics.asks.labels(engine, purpose, state).inc()
        self._metrics.cost.labels(engine, purpose).inc(bill.usd)
        if said is not None:
            self._metrics.tokens.labels(engine, "prompt").inc(said.usage.prompt_tokens)
            self._metrics.tokens.labels(engine, "completion").inc(said.usage.completion_tokens)


def _pressed(engine: Engine, pause_above: float) -> bool:
    load = engine.load()
    return not load.open or load.utilisation > pause_above
