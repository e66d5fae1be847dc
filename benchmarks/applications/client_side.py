"""How it is without us: a client that carries every answer to the next call itself, and engines behind a least-queue
balancer."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Any
from zlib import crc32

import orjson
from multidict import CIMultiDict

from benchmarks.batching.batch import Rules, Speed
from benchmarks.batching.engine import BatchingEngine, Served
from engines.answers.answer import Body
from engines.chat import ChatRequest
from engines.codecs.chat import CHAT
from engines.engine import EngineInfo, EngineRequest
from loadtest.applications.shapes import Application, Call, filled

MODEL = "m"
Ask = Callable[[dict[str, Any]], Awaitable[str]]
Noted = Callable[[Served, EngineRequest], None]


class RoundTrips:
    """The way between a client and the service: 200 to 300 ms per call, there and back."""

    def __init__(self, seed: int, low_s: float = 0.2, high_s: float = 0.3) -> None:
        self._chance = random.Random(f"round trips/{seed}")
        self._range_s = low_s, high_s
        self.calls = 0

    async def call(self, asked: Callable[[], Awaitable[str]]) -> str:
        """What `asked` gives, with half the delay before it and half after it."""
        self.calls += 1
        delay_s = self._chance.uniform(*self._range_s)
        await asyncio.sleep(delay_s / 2)
        answer = await asked()
        await asyncio.sleep(delay_s / 2)
        return answer


def engines_of(count: int, speed: Speed, rules: Rules, noted: Noted) -> list[BatchingEngine]:
    """So many equal engines."""
    return [BatchingEngine(EngineInfo(f"e{n}", replica=f"e{n}"), speed, rules, noted) for n in range(count)]


class Balancer(ABC):
    """Stands before engines and sends each request to one of them."""

    def __init__(self, engines: Sequence[BatchingEngine]) -> None:
        self._engines = engines

    @abstractmethod
    def chosen(self, fields: Mapping[str, Any]) -> BatchingEngine:
        """The engine that a body goes to."""

    def least(self) -> BatchingEngine:
        """The engine with the fewest requests; the first of equals."""
        return min(self._engines, key=lambda one: one.load().in_flight)

    async def ask(self, fields: dict[str, Any]) -> str:
        """The answer's text. Raises RuntimeError where it is refused."""
        engine = self.chosen(fields)
        async with engine.stream(request_of(fields)) as reply:
            body = b"".join([chunk async for chunk in reply.chunks])
        completion = CHAT.assembled(Body((body,), len(body), "application/json"))
        if reply.status != 200 or completion is None:
            raise RuntimeError(body.decode())
        return completion.text()


class LeastQueue(Balancer):
    """The engine with the fewest requests, as FastChat does."""

    def chosen(self, fields: Mapping[str, Any]) -> BatchingEngine:
        """See Balancer."""
        return self.least()


class SessionHash(Balancer):
    """The engine that a client's session hashes to. Each request here is a session of its own."""

    def chosen(self, fields: Mapping[str, Any]) -> BatchingEngine:
        """See Balancer."""
        question = str(fields["messages"][-1]["content"])
        return self._engines[crc32(question.encode()) % len(self._engines)]


class PrefixAware(Balancer):
    """The engine that was sent the longest beginning of the prompt, in pieces of 128 characters; where it was sent less
    than half of it, or is far more loaded than another, the one with the fewest requests.

    The rule of SGLang's router (cache_threshold 0.5, balance_abs_threshold 32, balance_rel_threshold 1.1) over the hashed
    pieces of vLLM's production-stack. Nothing is forgotten, as there.
    """

    def __init__(self, engines: Sequence[BatchingEngine]) -> None:
        super().__init__(engines)
        self._sent: list[set[int]] = [set() for _ in engines]

    def chosen(self, fields: Mapping[str, Any]) -> BatchingEngine:
        """See Balancer."""
        text = "".join(f"{one['role']}\0{one['content']}\0" for one in fields["messages"])
        pieces = list(
            accumulate((text[at : at + 128] for at in range(0, len(text), 128)), _chained, initial=0)
        )
        found = [sum(1 for _ in takewhile(sent.__contains__, pieces[1:])) for sent in self._sent]
        loads = [one.load().in_flight for one in self._engines]
        far_apart = max(loads) - min(loads) > 32 and max(loads) > 1.1 * min(loads)
        at = max(range(len(found)), key=lambda one: (found[one], -loads[one]))
        if far_apart or found[at] < 0.5 * len(pieces[1:]):
            at = min(range(len(loads)), key=loads.__getitem__)
        self._sent[at].update(pieces[1:])
        return self._engines[at]


def _chained(before: int, piece: str) -> int:
    return hash((before, piece))


def request_of(fields: Mapping[str, Any]) -> EngineRequest:
    """A chat body as an engine takes it."""
    body = orjson.dumps(fields)
    chat = ChatRequest(body, fields, fields["model"], fields["messages"], stream=False, include_usage=False)
    return EngineRequest("POST", "/chat/completions", CIMultiDict(), body, chat)


async def played(application: Application, ask: Ask, trips: RoundTrips) -> str:
    """The application's result, carried out by its client: every call as soon as the answers it needs are there."""
    answers: dict[str, asyncio.Future[str]] = {
        call.name: asyncio.get_running_loop().create_future() for call in application.calls
    }

    async def play(call: Call) -> None:
        needed = {name: await answers[name] for name in call.reads}
        body = {**filled(call, needed, MODEL), "user": application.kind}
        answers[call.name].set_result(await trips.call(lambda: ask(body)))

    async with asyncio.TaskGroup() as group:
        for call in application.calls:
            group.create_task(play(call))
    return "\n".join(answers[name].result() for name in application.wanted)
