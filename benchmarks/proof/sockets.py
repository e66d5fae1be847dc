"""The same streams over real sockets: `understudy serve`, its defaults, and two scripted upstreams.

The large upstream gives the recorded answers. As a judge it compares truthfully: a tie for equal answers, else 3 points
for the recorded one. Quality is measured at the client; the judge is simulated.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from benchmarks.processes import free_port, gateway_ready, started
from benchmarks.proof.replayed import MAX_LOSS
from benchmarks.proof.streams import Recorded, shuffled, small_answer

_SYSTEM = "Answer the request."
_JUDGED = re.compile(r"<<<(FIRST|SECOND) ANSWER (\w+)>>>\n(.*?)\n<<<END \1 ANSWER \2>>>", re.DOTALL)
_AT_ONCE = 4
_READY_WITHIN_S = 120.0
_SERIES = re.compile(
    r'^understudy_judging_(?:samples|held_back|dropped)_total\{\w+="(\w+)"\} (\S+)$', re.MULTILINE
)
_OPENED = re.compile(r"offload_opened.*?compared\W+(\d+)")


@dataclass(frozen=True, slots=True)
class SocketRun:
    """What clients saw of one stream."""

    stream: str
    engine: str
    seed: int
    priced: bool
    requests: int
    offloaded: float
    offloaded_late: float
    """Of the last tenth."""
    lost: float
    most_lost: float
    """The largest mean quality lost at any point, over the requests up to there."""
    first: int | None
    compared: int
    """Requests at the small upstream that no client waited for."""
    needed: int | None
    """Comparisons behind the first opening."""
    became: dict[str, float]
    """What became of the samples, and why comparisons were held back or dropped: series of the gateway."""
    seconds: float

    @property
    def violated(self) -> bool:
        """Whether more was ever lost than allowed."""
        return self.most_lost > MAX_LOSS


class _Upstreams:
    """Both engines of one stream."""

    def __init__(self, recorded: Recorded, engine: str, order: list[int]) -> None:
        self._engine = engine
        self.answers = {recorded.texts[place]: recorded.answers[place] for place in order}
        """What the large engine says: where a request was recorded with several answers, one of them."""
        self._late = {recorded.texts[place] for place in order[len(order) // 2 :]}
        self.small_asked = 0

    async def small(self, request: web.Request) -> web.Response:
        """Answers as the scripted small engine does."""
        self.small_asked += 1
        messages = (await request.json())["messages"]
        text = messages[-1]["content"]
        # The nearest example stands next to the question.
        examples = [m["content"] for m in messages[:-1] if m["role"] == "assistant"]
        example = examples[-1] if examples else None
        right = self.answers[text]
        return _said(small_answer(self._engine, text, right, example, progress=float(text in self._late)))

    async def large(self, request: web.Request) -> web.Response:
        """Gives the recorded answer, or a verdict."""
        text = (await request.json())["messages"][-1]["content"]
        found = _JUDGED.findall(text)
        if len(found) != 2:
            return _said(self.answers.get(text, ""))
        (_, code, first), (_, _, second) = found
        right = set(self.answers.values())
        score = 0 if first == second else 3 if first in right else -3 if second in right else 0
        return _said(f"SCORE {code}: {score}")


def _said(text: str) -> web.Response:
    message = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return web.json_response(
        {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [message]}
    )


async def over_sockets(recorded: Recorded, engine: str, seed: int, count: int, *, priced: bool) -> SocketRun:
    """Play one stream, a few requests at once, and measure at the client. `priced`: whether the gateway is told that a
    token of the small engine costs a tenth of one of the large engine."""
    order, _ = shuffled(recorded, seed, count)
    upstreams = _Upstreams(recorded, engine, order)
    began = time.monotonic()
    async with _serving(upstreams, priced=priced) as (url, log), aiohttp.ClientSession() as session:
        asked = asyncio.Semaphore(_AT_ONCE)
        turns = [_ask(session, url, recorded.texts[place], asked) for place in order]
        # As many tasks as requests: they begin in their order, a few at a time.
        seen = await asyncio.gather(*turns)
        seconds = time.monotonic() - began
        async with session.get(f"{url}/metrics") as got:
            became = {name: float(count) for name, count in _SERIES.findall(await got.text())}
        opened = _OPENED.search(log.read_text(encoding="utf-8"))
    small = [who == "small" for who, _ in seen]
    right = (upstreams.answers[recorded.texts[place]] for place in order)
    losses = [float(said != large) for (_, said), large in zip(seen, right, strict=True)]
    so_far, most = 0.0, 0.0
    for place, loss in enumerate(losses):
        so_far += loss
        most = max(most, so_far / (place + 1))
    tenth = max(1, len(order) // 10)
    return SocketRun(
        recorded.name,
        engine,
        seed,
        priced,
        len(order),
        sum(small) / len(order),
        sum(small[-tenth:]) / tenth,
        so_far / len(order),
        most,
        small.index(True) if any(small) else None,
        upstreams.small_asked - sum(small),
        int(opened[1]) if opened is not None else None,
        became,
        seconds,
    )


async def _ask(
    session: aiohttp.ClientSession, url: str, text: str, asked: asyncio.Semaphore
) -> tuple[str, str]:
    """Who answered, and what."""
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": text}]
    headers = {"Authorization": "Bearer client"}
    async with (
        asked,
        session.post(f"{url}/v1/chat/completions", json=_body(messages), headers=headers) as got,
    ):
        said: dict[str, Any] = await got.json()
        return got.headers.get("x-understudy-engine", ""), said["choices"][0]["message"]["content"]


def _body(messages: list[dict[str, str]]) -> dict[str, Any]:
    return {"model": "large-model", "messages": messages}


@asynccontextmanager
async def _serving(upstreams: _Upstreams, *, priced: bool) -> AsyncIterator[tuple[str, Path]]:
    """The gateway as the command line starts it, between its upstreams; gives its base URL and its log."""
    app = web.Application()
    app.router.add_post("/small/chat/completions", upstreams.small)
    app.router.add_post("/large/chat/completions", upstreams.large)
    runner = web.AppRunner(app)
    await runner.setup()
    ours, theirs = free_port(), free_port()
    await web.TCPSite(runner, "127.0.0.1", ours).start()
    base = f"http://127.0.0.1:{ours}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            command = [sys.executable, "-m", "understudy", "serve"]
            if priced:
                config = Path(folder) / "config.yaml"
                config.write_text(json.dumps(_configured(base, folder, theirs)), encoding="utf-8")
                command += ["--config", str(config)]
            else:
                command += ["--port", str(theirs), "--admin", "off", "--data", f"{folder}/data"]
                command += ["--small", f"{base}/small=small-model", "--large", f"{base}/large=large-model"]
            with started(command, log) as process:
                url = f"http://127.0.0.1:{theirs}"
                await gateway_ready(url, process, log, within_s=_READY_WITHIN_S)
                yield url, log
    finally:
        await runner.cleanup()


def _configured(base: str, folder: str, port: int) -> dict[str, Any]:
    """What --small and --large stand for, with prices."""

    def engine(name: str, usd: float) -> dict[str, Any]:
        price = {"input_usd_per_mtok": usd, "output_usd_per_mtok": 4 * usd}
        return {
            "base_url": f"{base}/{name}",
            "api_key": "none",
            "model": f"{name}-model",
            "price": price,
        }

    return {
        "listen": {"port": port},
        "admin": {"enabled": False},
        "engines": {"small": engine("small", 0.25), "large": engine("large", 2.5)},
        "models": {"large-model": {"engines": ["small", "large"], "policy": "few_shot"}},
        "memory": {"data_dir": f"{folder}/data"},
    }
