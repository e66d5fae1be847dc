"""Engines of a stream behind OpenAI's wire: recorded answers at a pace that large engines have, or a real server's.

Every answer has an id of its own, as feedback names answers by it. What real models say at temperature 0 is kept in a file,
so that a stream played again takes minutes; it then comes at the recorded engines' pace.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import aiohttp
from aiohttp import web

from benchmarks.processes import free_port

Body = Mapping[str, Any]
PACE_S = {"small": 0.5, "large": 3.0}
USD_PER_MTOK = {"small": (0.25, 1.0), "large": (2.5, 10.0)}
"""Prompt and completion, in US dollars per million tokens, by decree: ten to one."""
_COUNTS = (
    "messages",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "seed",
    "top_p",
    "response_format",
)
_LETTERS_PER_TOKEN = 4
_REAL_WITHIN_S = 600.0
_VERDICT = re.compile(r"<<<(?:FIRST|SECOND) ANSWER (\w+)>>>\n(.*?)\n<<<END ", re.DOTALL)


class Said(NamedTuple):
    """An answer, and the tokens and seconds that it took."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    prefill_s: float = 0.0
    decode_s: float = 0.0
    """Of the two, all that was waited for where a server does not tell them apart."""


class Engine(Protocol):
    """Answers the body of a chat completion."""

    async def answer(self, body: Body) -> Said:
        """What it says."""
        ...

    async def would_say(self, body: Body) -> str:
        """Its first answer, for grading what a client got elsewhere: nobody waits for it or pays."""
        ...


def last(body: Body) -> str:
    """The text of the last turn."""
    return str(body["messages"][-1]["content"])


def judged(body: Body) -> tuple[str, str] | None:
    """The two answers that are to be compared, where a verdict is asked for."""
    found = _VERDICT.findall(last(body))
    return (found[0][1], found[1][1]) if len(found) == 2 else None


def usd(name: str, prompt_tokens: int, completion_tokens: int) -> float:
    """What so many tokens cost at an engine."""
    prompt, completion = USD_PER_MTOK[name]
    return (prompt_tokens * prompt + completion_tokens * completion) / 1e6


@dataclass
class Recorded:
    """Says of each text what was recorded; asked again, what `again` makes of it. It cannot judge: nobody recorded that."""

    answers: Mapping[str, str]
    pace_s: float
    again: Callable[[str, str], str] = lambda text, answer: answer

    def __post_init__(self) -> None:
        self._asked: set[str] = set()

    async def would_say(self, body: Body) -> str:
        """What was recorded, at once."""
        return self.answers.get(last(body), "")

    async def answer(self, body: Body) -> Said:
        """After `pace_s`."""
        await asyncio.sleep(self.pace_s)
        text = last(body)
        # A gateway may ask the same in other words, to learn how far a second answer is the same.
        known = text if text in self.answers else next((t for t in self.answers if t in text), "")
        said = self.answers.get(known, "")
        if judged(body) is not None:
            said = "Both of these answers look fine to me."
        elif known in self._asked:
            said = self.again(known, said)
        self._asked.add(known)
        letters = sum(len(str(message["content"])) for message in body["messages"])
        return Said(said, letters // _LETTERS_PER_TOKEN, max(1, len(said) // _LETTERS_PER_TOKEN))


class NotKept(Exception):
    """A real model did not answer this before, and is not to be asked."""


class Real:
    """A real server. Its answers are kept in `kept`, one per line, by what of the request makes them."""

    def __init__(self, url: str | None, session: aiohttp.ClientSession, kept: Path, pace_s: float) -> None:
        """`url` with /v1; None: it says what is kept, nothing else."""
        self._url, self._session, self._kept, self._pace_s = url, session, kept, pace_s
        kept.parent.mkdir(parents=True, exist_ok=True)
        lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
        self._said = {key: Said(*said) for key, *said in map(json.loads, lines)}

    async def would_say(self, body: Body) -> str:
        """As of `answer`."""
        return (await self.answer(body)).text

    async def answer(self, body: Body) -> Said:
        """From the file, or the server. Raises NotKept, aiohttp.ClientError."""
        asked = {name: body[name] for name in _COUNTS if body.get(name) is not None}
        key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]
        if key in self._said:
            await asyncio.sleep(self._pace_s)
            return self._said[key]
        if self._url is None:
            raise NotKept
        limit = aiohttp.ClientTimeout(total=_REAL_WITHIN_S)
        began = time.perf_counter()
        async with self._session.post(f"{self._url}/chat/completions", json=asked, timeout=limit) as got:
            got.raise_for_status()
            found = await got.json()
        usage = found["usage"]
        text = found["choices"][0]["message"]["content"] or ""
        waited = {"prompt_ms": 0.0, "predicted_ms": 1000.0 * (time.perf_counter() - began)}
        took = found.get("timings", waited)
        seconds = round(took["prompt_ms"] / 1000, 3), round(took["predicted_ms"] / 1000, 3)
        said = self._said[key] = Said(text, usage["prompt_tokens"], usage["completion_tokens"], *seconds)
        with self._kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, *said]) + "\n")
        return said


@dataclass(slots=True)
class Asked:
    """What one engine was asked for in all, client or no client."""

    requests: int = 0
    usd: float = 0.0
    verdicts: int = 0
    verdicts_usd: float = 0.0

    def figures(self) -> dict[str, float]:
        """By name."""
        return asdict(self)


class Upstreams:
    """Engines by name, as OpenAI-compatible servers below one address."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines
        self.asked = {name: Asked() for name in engines}

    async def handle(self, request: web.Request) -> web.Response:
        """One chat completion."""
        name = request.match_info["engine"]
        body = await request.json()
        said = await self._engines[name].answer(body)
        asked, cost = self.asked[name], usd(name, said.prompt_tokens, said.completion_tokens)
        asked.requests += 1
        asked.usd += cost
        if judged(body) is not None:
            asked.verdicts += 1
            asked.verdicts_usd += cost
        usage = {
            "prompt_tokens": said.prompt_tokens,
            "completion_tokens": said.completion_tokens,
            "total_tokens": said.prompt_tokens + said.completion_tokens,
        }
        message = {"role": "assistant", "content": said.text}
        return web.json_response(
            {
                "id": f"chatcmpl-{uuid.uuid4().hex}",
                "object": "chat.completion",
                "created": 1,
                "model": name,
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": usage,
            }
        )

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Gives the address; an engine's is ADDRESS/NAME/v1."""
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/{engine}/v1/chat/completions", self.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            await runner.cleanup()
