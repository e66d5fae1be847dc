"""The traffic of benchmarks.soak: everything that clients do, right or wrong, at a steady rate.

Much of what a client sends it may make up: end users, sessions, model names, keys, ids. Here each of them is new every time,
so that whatever is kept by one of these without a bound grows with the requests.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp

REPEATED = 40
DISTINCT = 1500
"""So many questions there are: what is kept of each in caches that are bounded in bytes is there after the warm-up."""
_UNDER_WAY = 100
_LEAVES_S = (0.005, 0.06)
_GIVES_UP_S = 60.0


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `leaves`: its client goes after a while, whatever has come by then."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    key: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    leaves: bool = False


def question(number: int, word: str = "now") -> str:
    """The text of a question."""
    return f"What is the best way to paint fence number {number} in the spring {word} and what do I need?"


class Calls:
    """What may be asked, at random. `keys`: secrets that open the gateway."""

    def __init__(self, keys: tuple[str, ...], seed: int = 5) -> None:
        self._keys = keys
        self._random = random.Random(seed)
        self._kinds: dict[str, tuple[int, Callable[[], Call]]] = {
            "new": (22, self._new),
            "repeat": (20, lambda: self._chat(question(self._random.randrange(REPEATED)))),
            "learned": (8, lambda: self._chat(self._question(), model="learned")),
            "stream": (12, lambda: self._chat(self._question(), stream=True)),
            "leave": (8, lambda: self._chat(self._question(), stream=True, leaves=True)),
            "user": (10, self._user),
            "responses": (6, lambda: self._responses(stream=False)),
            "responses stream": (3, lambda: self._responses(stream=True)),
            "embedding": (5, self._embedding),
            "failing": (1, lambda: self._chat(question(self._random.randrange(DISTINCT), "fail"))),
            "no such model": (2, lambda: self._chat("Hi", model=f"none-{self._made_up()}")),
            "no such key": (1, lambda: Call("GET", "/models", key=f"us-{self._made_up()}")),
            "no such path": (1, lambda: Call("GET", f"/{self._made_up()}", key=self._key())),
            "no such id": (1, lambda: Call("GET", f"/usage/{self._made_up()}", key=self._key())),
            "wrong": (2, lambda: Call("POST", "/chat/completions", {"model": "bench"}, self._key())),
            "models": (1, lambda: Call("GET", "/models", key=self._key())),
        }

    def one(self) -> tuple[str, Call]:
        """(its kind, the request)."""
        weights = [weight for weight, _ in self._kinds.values()]
        kind = self._random.choices(list(self._kinds), weights)[0]
        return kind, self._kinds[kind][1]()

    def fill(self, number: int, *, learned: bool = False) -> Call:
        """The n-th of the questions that fill the bank; or of those that are asked of the model that reads examples."""
        if learned:
            return self._chat(question(number, "early"), model="learned", key=self._keys[0])
        return self._chat(question(number), key=self._keys[0])

    def _chat(
        self,
        text: str,
        *,
        model: str = "bench",
        stream: bool = False,
        leaves: bool = False,
        key: str = "",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> Call:
        body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": text}]}
        body |= {"temperature": 0, "max_tokens": 64}
        if stream:
            body["stream"] = True
        return Call("POST", "/chat/completions", body, key or self._key(), headers, leaves)

    def _new(self) -> Call:
        # A seed makes it a request that nobody asked before, in words that were.
        call = self._chat(self._question())
        return Call(call.method, call.path, {**(call.body or {}), "seed": self._number()}, call.key)

    def _user(self) -> Call:
        """An end user and a session that were never seen before."""
        headers = (("x-understudy-user", self._made_up()), ("x-understudy-session", self._made_up()))
        return self._chat(self._question(), headers=headers)

    def _responses(self, *, stream: bool) -> Call:
        body = {"model": "bench", "input": self._question(), "store": self._random.random() < 0.5}
        if self._random.random() < 0.1:
            body["previous_response_id"] = f"resp_{self._made_up()}"
        if stream:
            body["stream"] = True
        leaves = stream and self._random.random() < 0.2
        return Call("POST", "/responses", body, self._key(), leaves=leaves)

    def _embedding(self) -> Call:
        return Call("POST", "/embeddings", {"model": "vectors", "input": self._question()}, self._key())

    def _question(self) -> str:
        return question(
            REPEATED + self._random.randrange(DISTINCT), self._random.choice(("now", "now", "slow"))
        )

    def _key(self) -> str:
        return self._random.choice(self._keys)

    def _made_up(self) -> str:
        return f"{self._number():016x}"

    def _number(self) -> int:
        return self._random.getrandbits(60)


class Traffic:
    """Asks at a rate until it is told to stop, and counts what came of it."""

    def __init__(self, url: str, calls: Calls, rate: float, seed: int = 6) -> None:
        """`rate`: requests per second."""
        self._url = url
        self._calls = calls
        self._rate = rate
        self._random = random.Random(seed)
        self.done = 0
        self.statuses: dict[str, int] = {}
        """How many by kind and status."""

    async def fill(self, number: int, *, learned: bool = False) -> None:
        """Ask so many different questions (Calls.fill), those for the model that reads examples at the rate of the run:
        memory that a gateway takes only when it cannot keep up would hide what grows later."""
        async with self._session() as session:
            for begin in range(0, number, 8):
                some = range(begin, min(number, begin + 8))
                await asyncio.gather(
                    *(self._ask(session, "fill", self._calls.fill(n, learned=learned)) for n in some)
                )

    async def run(self, until_s: float) -> None:
        """Until that time of the monotonic clock."""
        async with self._session() as session, asyncio.TaskGroup() as tasks:
            places = asyncio.Semaphore(_UNDER_WAY)
            while time.monotonic() < until_s:
                await places.acquire()
                task = tasks.create_task(self._ask(session, *self._calls.one()))
                task.add_done_callback(lambda _: places.release())
                await asyncio.sleep(self._random.expovariate(self._rate))

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=2 * _UNDER_WAY))

    async def _ask(self, session: aiohttp.ClientSession, kind: str, call: Call) -> None:
        headers = {"Authorization": f"Bearer {call.key}", **dict(call.headers)}
        waits_s = self._random.uniform(*_LEAVES_S) if call.leaves else _GIVES_UP_S
        came = "left" if call.leaves else "no answer"
        with suppress(TimeoutError, aiohttp.ClientError):
            async with (
                asyncio.timeout(waits_s),
                session.request(
                    call.method, self._url + call.path, json=call.body, headers=headers
                ) as answer,
            ):
                await answer.read()
                came = str(answer.status)
        self.done += 1
        self.statuses[f"{kind}: {came}"] = self.statuses.get(f"{kind}: {came}", 0) + 1
