"""Plays a scenario in virtual time on a service, and takes its times."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from benchmarks.applications.requests import chat, popular
from benchmarks.applications.service import Service, Serving, Site
from benchmarks.batching.virtual_time import run
from loadtest.applications.shapes import Application, Call, map_reduce

Make = Callable[[Site], Serving]


@dataclass(frozen=True, slots=True)
class Mixed:
    """Chat beside map-reduce: mean times in s."""

    chat_per_token_s: float
    """From asking to the end, by tokens of the answer."""
    decoding_s: float
    """Per token after the first, as the engine gives them."""
    map_reduce_s: float


@dataclass(frozen=True, slots=True)
class Popular:
    """Requests to popular applications."""

    per_token_s: float
    """Mean time from asking to the end, by tokens of the answer."""
    p50_s: float
    """Median time from asking to the end."""
    cached_share: float
    """Of all prompt tokens, found in a prefix cache."""


def together(make: Make, site: Site, applications: Sequence[Application]) -> list[float]:
    """How long each takes, in s, when all begin at once."""

    async def main() -> list[float]:
        async with make(site) as service:
            return list(await asyncio.gather(*(_timed(service, one) for one in applications)))

    return run(main)


def one_by_one(make: Make, site: Site, applications: Sequence[Application]) -> list[float]:
    """How long each takes alone."""
    return [together(make, site, [one])[0] for one in applications]


def mixed(make: Make, site: Site, *, chat_rate: float, map_reduce_rate: float, for_s: float) -> Mixed:
    """Chat and map-reduce applications come at these rates per second."""
    chance = random.Random(f"mixed/{site.seed}")
    chats = [(at_s, chat(f"chat/{n}", chance)) for n, at_s in enumerate(_poisson(chance, chat_rate, for_s))]
    reduces = [
        (at_s, map_reduce(f"document/{n}", 22))
        for n, at_s in enumerate(_poisson(chance, map_reduce_rate, for_s))
    ]
    chat_s: list[float] = []
    reduce_s: list[float] = []

    async def asked(service: Service, at_s: float, call: Call) -> None:
        await asyncio.sleep(at_s)
        chat_s.append(await _called(service, call, "chat") / call.answer_tokens)

    async def reduced(service: Service, at_s: float, one: Application) -> None:
        await asyncio.sleep(at_s)
        reduce_s.append(await _timed(service, one))

    async def main() -> float:
        async with make(site) as service:
            async with asyncio.TaskGroup() as group:
                for at_s, call in chats:
                    group.create_task(asked(service, at_s, call))
                for at_s, one in reduces:
                    group.create_task(reduced(service, at_s, one))
            return fmean(one.token_s for one in service.log.of("chat"))

    decoding_s = run(main)
    return Mixed(fmean(chat_s), decoding_s, fmean(reduce_s))


def popular_prompts(
    make: Make, site: Site, applications: int, rate: float, requests: int = 400, *, plain: bool = False
) -> Popular:
    """So many requests come at this rate per second, each to one of so many applications.

    The first quarter warms the caches and is not counted. With one seed the requests are the same at every rate, and come
    in the same order. `plain`: as calls of their own, which say nothing of where the shared prompt ends.
    """
    chance = random.Random(f"popular/{site.seed}")
    calls, at_s = [], 0.0
    for n in range(requests):
        at_s += chance.expovariate(1.0)
        calls.append((at_s / rate, popular(chance.randrange(applications), f"question/{n}", chance)))
    per_token_s: list[float] = []
    took: list[float] = []

    async def asked(service: Service, number: int) -> None:
        at_s, call = calls[number]
        await asyncio.sleep(at_s)
        if plain:
            took_s = await _called(service, call, "popular")
        else:
            # A step of its own: its template tells where the shared prompt ends.
            took_s = await _timed(service, Application("popular", (call,)))
        if number >= requests // 4:
            took.append(took_s)
            per_token_s.append(took_s / call.answer_tokens)

    async def main() -> float:
        async with make(site) as service:
            async with asyncio.TaskGroup() as group:
                for number in range(requests):
                    group.create_task(asked(service, number))
            return service.log.cached_share

    cached = run(main)
    return Popular(fmean(per_token_s), median(took), cached)


def knee(
    make: Make, site: Site, applications: int, bound_s: float, highest: float, requests: int = 400
) -> float:
    """The highest rate per second, to 5 %, at which the mean time per token stays within `bound_s`."""
    rates = [highest * 1.05**-step for step in range(80)]
    low, high = 0, len(rates) - 1
    while low < high:
        middle = (low + high) // 2
        if popular_prompts(make, site, applications, rates[middle], requests).per_token_s <= bound_s:
            high = middle
        else:
            low = middle + 1
    return rates[low]


def _poisson(chance: random.Random, rate: float, for_s: float) -> list[float]:
    """Times of arrival, in s."""
    times: list[float] = []
    at_s = chance.expovariate(rate)
    while at_s < for_s:
        times.append(at_s)
        at_s += chance.expovariate(rate)
    return times


async def _timed(service: Service, application: Application) -> float:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await service.application(application)
    return loop.time() - began_s


async def _called(service: Service, call: Call, kind: str) -> float:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await service.call(call, kind)
    return loop.time() - began_s
