"""A gateway of two workers with a key whose dollars are limited, and an upstream that counts what it would charge."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from store import Store
from store.people.allowance import NANO, Standing
from store.people.limits import Limits, Terms
from tests.aiohttp_server import aiohttp_server
from tests.flow.process import Gateway, running

INPUT_NANO, OUTPUT_NANO = 2_500, 10_000
"""Of one token: 2.50 and 10 dollars per million."""

PRICE = "{input_usd_per_mtok: 2.5, output_usd_per_mtok: 10}"
CONFIG = """
listen: {{port: 0, workers: {workers}, grace_s: 3}}
log: {{requests: false}}
health: {{every_s: null}}
engines:
  small: {{kind: openai, base_url: "{url}/small", api_key: sk-up, price: {price}}}
  big: {{kind: openai, base_url: "{url}/big", api_key: sk-up, price: {price}}}
models: {{m: {{engines: [small, big], policy: fixed, proof: "off"}}}}
memory: {{data_dir: {data}, examples: {{enabled: false}}, exact: {{enabled: false}}}}
"""


@dataclass
class Charging:
    """An upstream that charges for what it says: tokens of four letters. `fails`: how often `big` answers 500 instead."""

    charged_nano: int = 0
    charged_left_nano: int = 0
    """Of it, for streams whose reader left."""
    asked: Counter[str] = field(default_factory=Counter)
    fails: float = 0.0
    pause_s: float = 0.0
    dice: random.Random = field(default_factory=lambda: random.Random(26))

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.Request)
        body = await request.json()
        which = "big" if "/big/" in request.path else "small"
        self.asked[which] += 1
        if which == "big" and self.dice.random() < self.fails:
            return web.json_response({"error": {"message": "broken", "type": "server_error"}}, status=500)
        prompt = sum(len(message["content"]) for message in body["messages"]) // 4 + 3
        most = body.get("max_tokens") or body.get("max_completion_tokens") or 40
        said = most if self.dice.random() < 0.5 else self.dice.randint(1, most)
        usage = {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said}
        if not body.get("stream"):
            await asyncio.sleep(self.pause_s)
            self.charge(prompt, said)
            return web.json_response(answer("word" * said, usage))
        assert body["stream_options"]["include_usage"] is True
        return await self._stream(request, prompt, said, usage)

    async def _stream(
        self, request: web.Request, prompt: int, said: int, usage: Mapping[str, int]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        sent = 0
        try:
            await response.prepare(request)
            while sent < said:
                sent += 1
                await response.write(chunk({"content": "word"}))
                await asyncio.sleep(self.pause_s / 20)
            await response.write(chunk({}, finish="stop"))
            await response.write(chunk(None, usage=usage) + b"data: [DONE]\n\n")
        except (ConnectionError, asyncio.CancelledError):
            self.charged_left_nano += self.charge(prompt, sent)
            raise
        self.charge(prompt, said)
        return response

    def charge(self, prompt: int, said: int) -> int:
        nano = prompt * INPUT_NANO + said * OUTPUT_NANO
        self.charged_nano += nano
        return nano


def answer(text: str, usage: Mapping[str, int]) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def chunk(delta: Any, *, finish: str | None = None, usage: Mapping[str, int] | None = None) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    said = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": choices,
        "usage": usage,
    }
    return b"data: " + json.dumps(said).encode() + b"\n\n"


@dataclass
class Site:
    """What runs, and the key's secret."""

    run: Gateway
    data: Path
    upstream: Charging
    headers: dict[str, str]
    scope: str
    statuses: Counter[int] = field(default_factory=Counter)
    left: int = 0
    """Clients that left."""
    codes: Counter[str] = field(default_factory=Counter)

    async def ask(
        self, session: aiohttp.ClientSession, n: int, *, tries: int = 60, leave: bool = False
    ) -> None:
        """One request as an SDK sends it, which comes again after a 429 that says so."""
        body = {
            "model": "m",
            "messages": [{"role": "user", "content": f"Question {n} " + "and so on " * (n % 7)}],
            "max_tokens": 20,
            "stream": bool(n % 2),
        }
        for _ in range(tries):
            try:
                async with session.post(
                    self.run.url + "/chat/completions", json=body, headers=self.headers
                ) as response:
                    if leave and response.status == 200:
                        self.left += 1
                        await response.content.readany()
                        response.close()
                        return
                    read = await response.read()
            except aiohttp.ClientError:
                return
            self.statuses[response.status] += 1
            if response.status == 200:
                assert b"usage" not in read or not body["stream"], read
                return
            self.codes[json.loads(read)["error"]["code"]] += 1
            if response.headers.get("x-should-retry") == "false" or response.status != 429:
                return
            await asyncio.sleep(0.1)

    async def ask_all(self, count: int, *, leaving: int = 0) -> None:
        """`count` requests at once; every `leaving`-th client leaves as its answer begins."""
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as tasks:
            for n in range(count):
                tasks.create_task(self.ask(session, n, leave=bool(leaving) and n % leaving == 0))

    def budget(self) -> Standing:
        """How the key's budget stands in the store."""
        store = Store.open(self.data)
        try:
            standings = store.allowances.standings(self.scope, 0)
            (found,) = [one for one in standings if one.window.kind.startswith("usd:")]
            return found
        finally:
            store.close()

    async def settled(self) -> Standing:
        """The same once nobody holds any of it."""
        async with asyncio.timeout(60):
            while (found := await asyncio.to_thread(self.budget)).leased:
                await asyncio.sleep(0.2)
        return found


@asynccontextmanager
async def site(folder: Path, limits: Limits, *, workers: int = 2) -> AsyncIterator[Site]:
    data = folder / "data"
    store = Store.open(data)
    key, secret = store.keys.create("acme", "web", terms=Terms(limits=limits))
    store.close()
    upstream = Charging()
    async with aiohttp_server(upstream.handle) as origin:
        (folder / "config.yaml").write_text(
            CONFIG.format(price=PRICE, url=origin, data=data, workers=workers)
        )
        starting = running("--config", str(folder / "config.yaml"), workers=workers)
        run = await asyncio.to_thread(starting.__enter__)
        try:
            yield Site(run, data, upstream, {"Authorization": f"Bearer {secret}"}, f"key:{key.id}")
        finally:
            with suppress(ProcessLookupError):
                await asyncio.to_thread(starting.__exit__, None, None, None)


def nano(usd: float) -> int:
    return round(usd * NANO)
