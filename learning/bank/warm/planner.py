"""Plans which examples' prefixes an engine keeps warm, and warms them while it is quiet. In the process that replays.

From the log of requests: how often examples were sent, how long prompts of what length took. Warming is a request with
`max_tokens` 1 whose beginning is what clients' requests will begin with.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from multidict import CIMultiDict

from engines.asking import chat_of
from engines.chat import estimated_tokens
from engines.engine import Engine, EngineRequest
from engines.errors import EngineError
from learning.bank.warm.metrics import KvMetrics
from learning.bank.warm.value import KvPlan, Line, Use, fitted_line, kv_plan
from learning.replay.asking import MayGoOn
from store import Store
from store.jobs.kv_plans import KvPlanExample
from store.records import Example

log = structlog.get_logger(__name__)

_LOOK_BACK_S = 72 * 3600.0
"""Uses this old count 0.9^72, half a thousandth."""
_MOST_USES = 50_000
_MOST_SAMPLES = 2_000
_ASSUMED_MS_PER_TOKEN = 0.1
"""Until an engine was seen at work: which examples are kept does not depend on it where loading costs nothing."""
_TURN_TOKENS = 8
_AGAIN_S = 3600.0
"""What was warmed and not used since is warmed again after this."""
_LARGEST_BYTES = 2**20

FieldsOf = Callable[[Example], dict[str, Any] | None]
"""From an example to the fields of a request that asks its question as it was asked, `messages` among them; None where it is
not known under which instructions that was."""


@dataclass(frozen=True, slots=True)
class Room:
    """What an engine can keep."""

    blocks: int
    block_tokens: int
    load: Line
    warm: bool


@dataclass(slots=True)
class KvPlanner:
    """Plans for some engines. `run` never returns."""

    store: Store
    engines: Mapping[str, Engine]
    rooms: Mapping[str, Room]
    fields_of: FieldsOf
    """May block."""
    may_go_on: MayGoOn
    every_s: float
    metrics: KvMetrics
    clock: Callable[[], float] = time.time
    _warmed_at_s: dict[tuple[str, int], float] = field(default_factory=dict)

    async def run(self) -> None:
        """Plan, warm, wait; again and again."""
        while True:
            for name, engine_room in self.rooms.items():
                try:
                    await self.step(name, engine_room)
                except Exception as error:
                    log.error("kv_plan_failed", engine=name, error=error)
            await asyncio.sleep(self.every_s)

    async def step(self, name: str, engine_room: Room) -> KvPlan:
        """Make one engine's plan, publish it, warm what is due. Raises what the store raises."""
        plan, examples, figures = await asyncio.to_thread(self._plan, name, engine_room)
        rows = [KvPlanExample(k.example_id, k.tenant, k.tokens, k.uses, k.saves_ms) for k in plan.kept]
        await asyncio.wrap_future(self.store.jobs.kv_plans.put(name, rows, figures, self.clock()))
        log.info("kv_planned", engine=name, **figures)
        if engine_room.warm:
            # The most used last: engines that run short drop what was used longest ago.
            for kept in reversed(plan.kept):
                await self._warm(name, examples[kept.example_id])
        return plan

    def _plan(self, name: str, engine_room: Room) -> tuple[KvPlan, dict[int, Example], dict[str, Any]]:
        now_s = self.clock()
        since_s = now_s - _LOOK_BACK_S
        requests, bank = self.store.decisions.requests, self.store.examples
        uses = [Use(*row) for row in requests.uses_of_examples(name, since_s=since_s, limit=_MOST_USES)]
        ids: dict[str, set[int]] = {}
        for use in uses:
            ids.setdefault(use.tenant, set()).update(use.example_ids)
        # Of the tenant's own only: what another lends may be taken back, and is not ours to send by ourselves.
        examples = {e.id: e for tenant, own in ids.items() for e in bank.by_ids(tenant, sorted(own))}
        tokens = {(e.tenant, e.id): _tokens(e) for e in examples.values()}
        seen = requests.first_chunks(name, since_s=since_s, limit=_MOST_SAMPLES)
        fitted = fitted_line([t for t, _ in seen], [ms for _, ms in seen])
        plan = kv_plan(
            uses,
            tokens,
            compute=fitted or Line(0.0, _ASSUMED_MS_PER_TOKEN),
            load=engine_room.load,
            block_tokens=engine_room.block_tokens,
            capacity_blocks=engine_room.blocks,
            now_s=now_s,
        )
        for name_and_id, at_s in _last_used(name, uses).items():
            # A client's own request warmed it, too.
            if name_and_id in self._warmed_at_s:
                self._warmed_at_s[name_and_id] = max(at_s, self._warmed_at_s[name_and_id])
        figures = {
            "examples": len(plan.kept),
            "of": len(tokens),
            "blocks": plan.blocks,
            "room_blocks": engine_room.blocks,
            "exact": plan.exact,
            "saves_ms": round(sum(k.saves_ms for k in plan.kept), 3),
            "ms_per_token": round(fitted.per_token_ms, 6) if fitted else None,
            "base_ms": round(fitted.base_ms, 3) if fitted else None,
            "prompts": len(seen),
        }
        return plan, examples, figures

    async def _warm(self, name: str, example: Example) -> None:
        if self.clock() - self._warmed_at_s.get((name, example.id), 0.0) < _AGAIN_S:
            return
        fields = await asyncio.to_thread(self.fields_of, example)
        if fields is None:
            return
        await self.may_go_on()
        engine = self.engines[name]
        messages = [
            *fields.pop("messages"),
            {"role": "assistant", "content": example.answer},
            # Whatever the next question is, its turn begins like this one's; what differs is read anew.
            {"role": "user", "content": "."},
        ]
        fields |= {"model": engine.info.model or "", "max_tokens": 1, "temperature": 0}
        warmed = await _asked(engine, fields, messages, example.tenant)
        self._warmed_at_s[name, example.id] = self.clock()
        if warmed is None:
            return
        usd = engine.info.price.cost_usd(warmed.tokens, 1)
        self.metrics.cost.labels(name).inc(usd)
        self.metrics.tokens.labels(name, "cached").inc(warmed.cached_tokens)
        self.metrics.tokens.labels(name, "computed").inc(max(0, warmed.tokens - warmed.cached_tokens))
        await asyncio.wrap_future(
            self.store.jobs.kv_plans.note_warmed(
                name, tokens=warmed.tokens, cached_tokens=warmed.cached_tokens, usd=usd
            )
        )
        costs = self.store.jobs.replay.side_costs
        await asyncio.wrap_future(costs.book(example.tenant, name, "warm", usd, warmed.tokens))


@dataclass(frozen=True, slots=True)
class _Warmed:
    tokens: int
    cached_tokens: int


async def _asked(
    engine: Engine, fields: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], tenant: str
) -> _Warmed | None:
    chat = chat_of(fields, messages)
    headers = CIMultiDict({"Content-Type": "application/json", "Accept-Encoding": "identity"})
    # The tenant's name goes along: engines keep tenants' caches apart.
    request = EngineRequest("POST", "/chat/completions", headers, chat.body, chat, tenant, background=True)
    try:
        async with engine.stream(request) as reply:
            body = bytearray()
            async for chunk in reply.chunks:
                body += chunk
                if len(body) > _LARGEST_BYTES:
                    return None
        usage = json.loads(body).get("usage") if reply.status == 200 else None
    except (EngineError, ValueError, AttributeError) as error:
        log.warning("not_warmed", engine=engine.info.name, error=error)
        return None
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details") or {}
    return _Warmed(int(usage.get("prompt_tokens") or 0), int(details.get("cached_tokens") or 0))


def _tokens(example: Example) -> int:
    return estimated_tokens(example.question) + estimated_tokens(example.answer) + _TURN_TOKENS


def _last_used(engine: str, uses: Sequence[Use]) -> dict[tuple[str, int], float]:
    last: dict[tuple[str, int], float] = {}
    for use in uses:
        for id in use.example_ids[:1]:
            last[engine, id] = max(use.at_s, last.get((engine, id), 0.0))
    return last
