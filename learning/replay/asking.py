"""Asks engines on behalf of a step of replay: nothing twice, nothing beyond the budget, nothing while traffic needs them.

Before a request leaves it is noted with the most it can cost; its answer is committed with what it did cost before anything
else happens. So whoever goes on after a kill finds what was bought, and asks only for the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from engines.asking import Bill, NotAnswered, Said, ask, most_usd
from engines.chat import ChatRequest
from engines.engine import Engine
from learning.replay.metrics import ReplayMetrics
from store.jobs.replay_jobs import ReplayJobs
from store.jobs.replay_records import AskState, NewAsk, ReplayStep

_LOOK_AGAIN_S = 0.25
_BYTES_PER_TOKEN_AT_LEAST = 2

MayGoOn = Callable[[], Awaitable[None]]
"""Returns when replay may ask an engine: at once while it is quiet, else once it is quiet again."""


async def always() -> None:
    """May go on at any time: for who runs a replay by hand."""


def text_of(said: Said) -> str:
    """What is remembered of a plain answer. Raises NotAnswered for one that is empty or was cut short."""
    if said.finish_reason != "stop" or not said.text.strip():
        raise NotAnswered("cut_short" if said.text.strip() else "empty")
    return said.text


@dataclass(slots=True)
class Gate:
    """When a run may ask: when traffic is low, and when the engine itself has room."""

    may_go_on: MayGoOn = always
    pause_above: float = 0.8
    """Utilisation of an engine above which it is not asked, so that no request of replay ever stands in its queue."""
    waiting: int = 0
    """Requests that wait here."""

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
    """What one step may ask. `ask` with a key that was paid for before gives the same again, for nothing."""

    def __init__(
        self, jobs: ReplayJobs, step: ReplayStep, gate: Gate, metrics: ReplayMetrics, paid: dict[str, str]
    ) -> None:
        """`paid`: what the step has bought already (ReplayJobs.paid)."""
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
        """What `read` makes of the engine's answer; that is what is remembered until the step is done.

        `most_tokens`: the bound on the answer that `chat` carries. Raises NotAnswered (the engine gave no answer, or `read`
        could make nothing of it: paid all the same), BudgetSpent, StopAsked, and what the store raises.
        """
        known = self._paid.get(key)
        if known is not None:
            return known
        await self._gate.wait(engine)
        id = await asyncio.wrap_future(
            self._jobs.asks.note(self._noted(key, engine, chat, most_tokens, purpose))
        )
        bill, state, text = Bill({}), "unknown", ""
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

    def _write(self, id: int, state: str, bill: Bill, said: Said | None, text: str) -> Any:
        known: AskState = "paid" if state == "paid" else "failed" if state == "failed" else "unknown"
        return self._jobs.asks.answered(
            id,
            known,
            cost_usd=0.0 if known == "unknown" else bill.usd,
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
