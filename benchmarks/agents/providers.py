"""Two engines of one provider: list prices, and the prefix caches that they really have."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.agents.traces import Request
from engines.chat import ChatRequest, Usage
from engines.engine import EngineInfo, EngineLoad, Price
from engines.servers.prefixes import Prefix, PrefixTable, prefixes_of
from understudy.settings.engines import PriceSettings
from understudy.settings.prices import prices_file, read_prices
from understudy.setup.engines import price_of

SMALL, LARGE = "small", "large"
TTL_S = 300.0
LEAST_TOKENS = 1024
MISSES = 0.02
"""Share of lookups that find nothing, as where another machine of the provider's answers."""
PAIRS = {
    "anthropic": ("https://api.anthropic.com/v1", "claude-haiku-4-5", "claude-opus-4-5"),
    "openai": ("https://api.openai.com/v1", "gpt-5-mini", "gpt-5"),
}
"""Where a small and a large model are, whose prices are the list's (docs/reference/prices.md)."""


def listed(pair: str) -> dict[str, Price]:
    """The list prices of a pair of models, by engine."""
    (url, small, large), prices = PAIRS[pair], read_prices(prices_file(None))
    found = {name: prices.find(pair, url, model) for name, model in ((SMALL, small), (LARGE, large))}
    return {
        name: price_of(PriceSettings.model_validate(one.price))
        for name, one in found.items()
        if one is not None
    }


@dataclass(slots=True)
class Clock:
    """The time of the trace."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(slots=True)
class Engine:
    """What a policy sees of one."""

    name: str
    price: Price

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(self.name, price=self.price, cache_ttl_s=TTL_S)

    def load(self) -> EngineLoad:
        return EngineLoad(capacity=64)


def engines(prices: dict[str, Price]) -> list[Engine]:
    """From small to large."""
    return [Engine(name, prices[name]) for name in (SMALL, LARGE)]


def chat(request: Request) -> ChatRequest:
    """The request as a gateway reads it."""
    fields = {"tools": list(request.tools)} if request.tools else {}
    return ChatRequest(b"", fields, "m", request.messages, stream=False, include_usage=False)


class Provider:
    """Answers, and says what of the prompt it had cached."""

    def __init__(self, prices: dict[str, Price], clock: Clock, seed: int) -> None:
        self._prices = prices
        self._rng = random.Random(f"provider {seed}")
        self._caches = {
            name: PrefixTable(math.inf, 2**20, ttl_s=TTL_S, least_tokens=LEAST_TOKENS, clock=clock)
            for name in self._prices
        }

    def answer(self, engine: str, request: Request, prefixes: Sequence[Prefix]) -> tuple[Usage, float]:
        """What it used, and what that costs in dollars. `prefixes`: of the request."""
        missed = self._rng.random() < MISSES
        cached = 0 if missed else self._caches[engine].cached_tokens(prefixes)
        prompt = prefixes[-1].tokens
        self._caches[engine].sent(prefixes, prompt)
        price = self._prices[engine]
        writes = price.cache_write_usd_per_mtok is not None and prompt >= LEAST_TOKENS
        usage = Usage(
            prompt, request.completion_tokens, cached, cache_write_tokens=prompt - cached if writes else 0
        )
        dollars = price.cost_usd(usage)
        assert dollars is not None
        return usage, dollars


def prompts_of(requests: Sequence[Request]) -> list[tuple[Prefix, ...]]:
    """The prefixes of each request."""
    return [prefixes_of(chat(each), tenant="t", least_tokens=1) for each in requests]


def oracle_usd(
    requests: Sequence[Request], prompts: Sequence[tuple[Prefix, ...]], prices: dict[str, Price]
) -> float:
    """The least that can be paid where the small engine answers only what it answers well, with all of the future known.

    By dynamic programming over what each engine was asked last. No engine is left in a tool loop; no lookup misses, and what
    begins all conversations is always cached: a bound.
    """
    sessions: dict[int, list[int]] = {}
    for at, request in enumerate(requests):
        sessions.setdefault(request.session, []).append(at)
    return sum(
        _session_usd([requests[at] for at in places], [prompts[at] for at in places], prices)
        for places in sessions.values()
    )


Asked = tuple[int, int]
"""By engine, small and large, the place of the request that it was asked last; -1: none."""


def _session_usd(
    requests: Sequence[Request], prompts: Sequence[Sequence[Prefix]], prices: dict[str, Price]
) -> float:
    paid: dict[Asked, float] = {(-1, -1): 0.0}
    for segment in _segments(requests):
        after: dict[Asked, float] = {}
        for asked, so_far in paid.items():
            for place, name in enumerate((SMALL, LARGE)):
                if name == SMALL and not all(requests[at].good for at in segment):
                    continue
                now, dollars = asked, so_far
                for at in segment:
                    dollars += _usd(requests, prompts, at, now[place], prices[name])
                    now = (at, now[1]) if place == 0 else (now[0], at)
                if dollars < after.get(now, math.inf):
                    after[now] = dollars
        paid = after
    return min(paid.values())


def _segments(requests: Sequence[Request]) -> list[list[int]]:
    """The places of the requests of each user turn: the first, and its tool loop."""
    found: list[list[int]] = []
    for at, request in enumerate(requests):
        if request.in_tool_loop and found:
            found[-1].append(at)
        else:
            found.append([at])
    return found


def _usd(
    requests: Sequence[Request], prompts: Sequence[Sequence[Prefix]], at: int, last: int, price: Price
) -> float:
    """Dollars of the request at a place, for an engine that was asked last at another."""
    prompt, lead = prompts[at][-1].tokens, prompts[at][0].tokens
    cached = lead if lead >= LEAST_TOKENS else 0
    if last >= 0 and requests[at].at_s - requests[last].at_s <= TTL_S:
        held = prompts[last][-1].tokens
        if held >= LEAST_TOKENS:
            cached = max(cached, min(held, prompt))
    writes = price.cache_write_usd_per_mtok is not None and prompt >= LEAST_TOKENS
    written = prompt - cached if writes else 0
    return price.compared_usd(prompt, requests[at].completion_tokens, cached, written)
