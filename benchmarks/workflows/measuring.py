"""How long applications take: alone, and when they come at a rate. All in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from benchmarks.batching.virtual_time import run
from benchmarks.workflows.applications import CORE, SMALL, Application
from benchmarks.workflows.baselines import Baseline, Scheme
from benchmarks.workflows.constants import LLAMA_7B, Calibration
from benchmarks.workflows.engines import World
from benchmarks.workflows.gateway_side import Way, gateway_side
from simulation.engine import TOKENS_PER_MESSAGE

ALL = frozenset({"prune", "stages", "decoding"})
Asked = Callable[[str], Awaitable[str]]
"""A request's key -> its answer."""


@dataclass(frozen=True, slots=True)
class Ours:
    """The gateway with some passes."""

    passes: frozenset[str] = ALL
    way: Way = field(default_factory=Way)

    @property
    def name(self) -> str:
        """In words."""
        parts = ["all passes" if self.passes == ALL else ", ".join(sorted(self.passes)) or "no pass"]
        parts += [] if self.way.by_depth else ["blind"]
        parts += [] if self.way.tokens is None else [f"{self.way.tokens} tokens in flight"]
        parts += [] if self.way.batch is None else [f"batches of {self.way.batch}"]
        return ", ".join(["gateway", *parts])


@dataclass(frozen=True, slots=True)
class Serving:
    """What serves, and the engines behind it."""

    ask: Asked
    world: World


@dataclass(frozen=True, slots=True)
class Took:
    """What came of some requests."""

    seconds: tuple[float, ...]
    answers: tuple[str, ...]
    prompt_tokens: int
    cached_tokens: int
    cached_documents: float
    """Share of the tokens of documents in prompts that a prefix cache had; 0 where there are none."""
    busy_s: dict[str, float]
    span_s: float

    @property
    def mean_s(self) -> float:
        """Of a request."""
        return fmean(self.seconds)


def serving(
    calibration: Calibration, application: Application, who: Ours | Scheme
) -> AbstractAsyncContextManager[Serving]:
    """A service before idle engines."""
    return (
        _ours(calibration, application, who)
        if isinstance(who, Ours)
        else _theirs(calibration, application, who)
    )


@asynccontextmanager
async def _ours(calibration: Calibration, application: Application, who: Ours) -> AsyncIterator[Serving]:
    definition = application.definition(who.passes)
    async with gateway_side(calibration, who.way) as side:
        yield Serving(lambda key: side.run(definition, application.inputs(key)), side.world)


@asynccontextmanager
async def _theirs(
    calibration: Calibration, application: Application, scheme: Scheme
) -> AsyncIterator[Serving]:
    baseline, definition = Baseline(calibration, scheme), application.definition()
    yield Serving(lambda key: baseline.run(application, definition, application.inputs(key)), baseline.world)


def alone(
    calibration: Calibration, application: Application, who: Ours | Scheme, seed: int, count: int
) -> Took:
    """So many requests, each begun when the one before has ended."""

    async def main() -> Took:
        async with serving(calibration, application, who) as service:
            timed = [await _timed(service, f"{seed}/{n}") for n in range(count)]
            return _took(service, timed)

    return run(main)


def at_rate(
    calibration: Calibration, application: Application, who: Ours | Scheme, rate: float, seed: int, count: int
) -> Took:
    """So many requests, which come at random at this rate per second. With one seed they are the same for everybody, and at
    every rate come in the same order. The first sixth is not counted."""
    chance = random.Random(f"arrivals/{application.name}/{seed}")
    arrivals, at_s = [], 0.0
    for _ in range(count):
        at_s += chance.expovariate(1.0)
        arrivals.append(at_s / rate)

    async def asked(service: Serving, number: int) -> tuple[float, str]:
        await asyncio.sleep(arrivals[number])
        return await _timed(service, f"{seed}/{number}")

    async def main() -> Took:
        async with serving(calibration, application, who) as service:
            timed = await asyncio.gather(*(asked(service, number) for number in range(count)))
            return _took(service, timed[count // 6 :])

    return run(main)


async def _timed(service: Serving, key: str) -> tuple[float, str]:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    answer = await service.ask(key)
    return loop.time() - began_s, answer


def _took(service: Serving, timed: Any) -> Took:
    served, world = service.world.log.served, service.world
    busy_s = {name: component.busy_s for name, component in world.components.items()}
    busy_s |= {name: sum(one.busy_s for one in engines) for name, engines in world.models.items()}
    return Took(
        tuple(seconds for seconds, _ in timed),
        tuple(answer for _, answer in timed),
        sum(one.prompt_tokens for one in served),
        sum(one.cached_tokens for one in served),
        world.log.cached_documents(
            world.calibration.instruction_tokens + 2 * TOKENS_PER_MESSAGE,
            world.calibration.contextual_document_tokens,
        ),
        busy_s,
        asyncio.get_running_loop().time(),
    )


def capacity(calibration: Calibration, application: Application, seed: int = 0, count: int = 12) -> float:
    """Requests per second that the busiest engine carries in batches of four: what rates are chosen by."""

    async def main() -> dict[str, float]:
        async with serving(calibration, application, Scheme(by_hand=False, per_call=True)) as service:
            for n in range(count):
                await service.ask(f"{seed}/{n}")
            return _demands(calibration, service.world, count)

    return 1 / max(run(main).values())


def _demands(calibration: Calibration, world: World, count: int) -> dict[str, float]:
    """Seconds of one instance of each engine that a request takes."""
    demands = {
        "embedder": world.components["embedder"].busy_s / count,
        "reranker": world.components["reranker"].busy_s / count,
        "web": world.components["web"].busy_s / count / calibration.web_at_once,
    }
    for name, speed in ((CORE, calibration.speed), (SMALL, LLAMA_7B)):
        steps = sum(
            speed.prefill_token_s * one.prompt_tokens
            + speed.step_s * one.answer_tokens / calibration.per_call_batch
            for one in world.log.served
            if one.model == name
        )
        demands[name] = steps / count / calibration.replicas
    return demands
