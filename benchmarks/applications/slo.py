"""One engine under more streams than it can decode in time: what a token takes with an SLO, and without."""

from __future__ import annotations

import asyncio
from statistics import fmean

import orjson
from multidict import CIMultiDict

from benchmarks.batching.batch import Rules, Speed
from benchmarks.batching.engine import BatchingEngine, Served
from benchmarks.batching.virtual_time import run
from engines.answers.tail import tail_of
from engines.codecs.chat import CHAT
from engines.engine import EngineInfo, EngineRequest
from engines.servers.breaker import Breaker
from engines.servers.server import Limits, Server
from engines.servers.servers import Servers
from loadtest.applications.shapes import words

_STREAMS = 300
_LEARNING = 100
"""Streams that end before what is told is looked at."""
_EVERY_S = 0.5


def token_s(speed: Speed, slo_tpot_ms: float | None) -> tuple[float, float]:
    """Mean seconds per token of the last 200 of 300 streams of 300 tokens, two of which come each second; and how long all
    take."""

    async def main() -> tuple[float, float]:
        clock = asyncio.get_running_loop().time
        served: list[Served] = []
        engine = BatchingEngine(EngineInfo("e"), speed, Rules(), lambda one, request: served.append(one))
        limits = Limits(256, 10_000, None, None, slo_tpot_ms)
        single = Servers([Server(engine, limits, Breaker(failures=5, open_s=30, clock=clock))], clock)
        await asyncio.gather(*(_asked(single, number) for number in range(_STREAMS)))
        return fmean(one.token_s for one in served[_LEARNING:]), clock()

    return run(main)


async def _asked(single: Servers, number: int) -> None:
    await asyncio.sleep(number * _EVERY_S)
    question = words(f"question/{number}", 400 + number % 7 * 300)
    fields = {
        "model": "m",
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 300,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    body = orjson.dumps(fields)
    request = EngineRequest("POST", "/chat/completions", CIMultiDict(), body, CHAT.read(body, fields))
    async with single.stream(request) as reply:
        tail = reply.tail = tail_of(reply.headers)
        assert tail is not None
        async for chunk in reply.chunks:
            tail.feed(chunk)
