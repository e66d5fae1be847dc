"""Plans which examples stand first in an engine's prompts, and warms their prefixes while traffic is low.

An engine that caches prefixes reuses the beginning of a prompt only. So the examples used most come first, always in the
same order (router.examples.hot_examples), and each is sent once with `max_tokens` 1 before clients need it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from prometheus_client import CollectorRegistry, Counter

from engines.asking import Bill, NotAnswered, ask, chat_of
from engines.chat import estimated_tokens
from engines.engine import Engine
from learning.replay.asking import MayGoOn
from learning.replay.material import kept_instructions
from router.digest import asked_under
from store.decisions.engine_log import uses_of_examples
from store.examples.accounting import decayed
from store.jobs.kv_plans import KvPlanExample, KvPlans
from store.records import Example
from store.store import Memory as Store

log = structlog.get_logger(__name__)

_LOOK_BACK_S = 72 * 3600.0
"""Uses this old count 0.9^72, half a thousandth."""
_MOST_USES = 50_000
_AGAIN_S = 3600.0
"""A prefix that nobody used for this long is warmed again."""

Use = tuple[str, float, tuple[int, ...]]
"""A request that carried examples: tenant, seconds since the epoch, ids of the examples."""
Name = tuple[str, int]
"""Tenant and id of an example."""


class KvMetrics:
    """Series of the process that warms."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.cost = Counter(
            "understudy_kv_warm_cost_usd",
            "Cost of warming prefixes in US dollars.",
            ["engine"],
            registry=registry,
        )
        self.tokens = Counter(
            "understudy_kv_warm_tokens",
            "Prompt tokens sent to warm prefixes: computed, or cached already.",
            ["engine", "kind"],
            registry=registry,
        )


def most_used(uses: Sequence[Use], most: int, now_s: float) -> list[tuple[Name, float]]:
    """At most `most` examples and their uses, each decayed by 0.9 per hour; the most used first.

    Left out is what never would stand first: behind another example, its prefix is not the prompt's, and warming it
    saves nothing.
    """
    counts: dict[Name, float] = {}
    for tenant, at_s, ids in uses:
        for id in ids:
            counts[tenant, id] = counts.get((tenant, id), 0.0) + decayed(1.0, min(at_s, now_s), now_s)
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    places = {name: place for place, name in enumerate(ranked)}
    first = {min(((tenant, id) for id in ids), key=places.__getitem__) for tenant, _, ids in uses if ids}
    return [(name, counts[name]) for name in ranked if name in first][:most]


@dataclass(slots=True)
class PrefixWarmer:
    """Plans and warms for some engines. `run` never returns."""

    store: Store
    engines: Mapping[str, Engine]
    """Those whose prefixes are kept warm, by name."""
    may_go_on: MayGoOn
    metrics: KvMetrics
    most: int = 32
    """Examples per engine."""
    warm: bool = True
    """False only plans the order."""
    every_s: float = 600.0
    clock: Callable[[], float] = time.time
    _warmed_at_s: dict[tuple[str, Name], float] = field(default_factory=dict)

    async def run(self) -> None:
        """Plan, warm, wait; again and again."""
        while True:
            for name in self.engines:
                try:
                    await self.step(name)
                except Exception as error:
                    log.error("kv_plan_failed", engine=name, error=error)
            await asyncio.sleep(self.every_s)

    async def step(self, engine: str) -> list[KvPlanExample]:
        """Make one engine's plan, store it, warm what is due; gives the plan. Raises what the store raises."""
        planned, examples, figures = await asyncio.to_thread(self._plan, engine)
        await asyncio.wrap_future(KvPlans(self.store.db).put(engine, planned, figures, self.clock()))
        log.info("kv_planned", engine=engine, examples=len(planned), **figures)
        if self.warm:
            # The most used last: engines that run short drop what was used longest ago.
            for each in reversed(planned):
                await self._warm(engine, examples[each.tenant, each.example_id])
        return planned

    def _plan(self, engine: str) -> tuple[list[KvPlanExample], dict[Name, Example], dict[str, int]]:
        now_s = self.clock()
        uses = uses_of_examples(self.store.db, engine, since_s=now_s - _LOOK_BACK_S, limit=_MOST_USES)
        ids: dict[str, set[int]] = {}
        for tenant, _, sent in uses:
            ids.setdefault(tenant, set()).update(sent)
        # The tenant's own only: what another lends may be taken back, and is not ours to send by ourselves.
        owned = [e for tenant, sent in ids.items() for e in self.store.examples.by_ids(tenant, sorted(sent))]
        examples = {(e.tenant, e.id): e for e in owned}
        uses = [
            (tenant, at_s, tuple(id for id in sent if (tenant, id) in examples))
            for tenant, at_s, sent in uses
        ]
        planned = [
            KvPlanExample(name[1], name[0], _tokens(examples[name]), count)
            for name, count in most_used(uses, self.most, now_s)
        ]
        for tenant, at_s, sent in uses:
            for key in ((engine, (tenant, id)) for id in sent[:1]):
                if key in self._warmed_at_s:
                    # A client's own request warmed it, too.
                    self._warmed_at_s[key] = max(at_s, self._warmed_at_s[key])
        return planned, examples, {"of": len(examples)}

    async def _warm(self, name: str, example: Example) -> None:
        key = name, (example.tenant, example.id)
        if self.clock() - self._warmed_at_s.get(key, 0.0) < _AGAIN_S:
            return
        instructions = await asyncio.to_thread(kept_instructions, self.store, example)
        if instructions is None:
            return
        await self.may_go_on()
        engine, bill = self.engines[name], Bill({})
        fields = asked_under(instructions, example.question)
        # The last turn begins as every next question does; what differs from there on is read anew.
        answered = [{"role": "assistant", "content": example.answer}, {"role": "user", "content": "."}]
        messages = [*fields.pop("messages"), *answered]
        chat = chat_of(
            {**fields, "model": engine.info.model or "", "max_tokens": 1, "temperature": 0}, messages
        )
        self._warmed_at_s[key] = self.clock()
        try:
            # The tenant's name goes along: engines keep tenants' caches apart.
            said = await ask(engine, chat, most_tokens=1, bill=bill, purpose="warm", tenant=example.tenant)
        except NotAnswered as error:
            log.warning("not_warmed", engine=name, reason=str(error))
            return
        tokens, cached = said.usage.prompt_tokens, said.usage.cached_tokens
        self.metrics.cost.labels(name).inc(bill.usd)
        self.metrics.tokens.labels(name, "cached").inc(cached)
        self.metrics.tokens.labels(name, "computed").inc(max(0, tokens - cached))
        plans, costs = KvPlans(self.store.db), self.store.replay.side_costs
        await asyncio.wrap_future(plans.note_warmed(name, tokens=tokens, cached_tokens=cached, usd=bill.usd))
        await asyncio.wrap_future(costs.book(example.tenant, name, "warm", bill.usd, tokens))


def _tokens(example: Example) -> int:
    return estimated_tokens(example.question) + estimated_tokens(example.answer)
