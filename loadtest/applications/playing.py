"""Carries applications out over sockets: call by call, as a client does, or all at once, by `POST /v1/runs`.

Between a client and a service that is far away lies a round trip. On one machine there is none, so it is waited out, half
before each request and half after it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
import orjson

from loadtest.applications.shapes import Application, Call, filled
from loadtest.clock import now
from loadtest.errors import EndpointError
from loadtest.plan import Target

_T = TypeVar("_T")
_JSON = {"Content-Type": "application/json"}
_VARIES = 0.2
"""A round trip is up to this share shorter or longer."""


class CallFailed(Exception):
    """A call or a run was not answered; the message says why."""


@dataclass(slots=True)
class Played:
    """What became of one application."""

    latency_s: float = 0.0
    requests: int = 0
    """That the client sent."""
    calls: int = 0
    """Of a model."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    result: str = ""
    error: str = ""
    """Why it has no result; empty where it has."""
    run: str = ""
    """The id of the run, where the gateway carried it out."""


@dataclass(slots=True)
class Player:
    """Plays applications at one target. `rtt_s` is the mean round trip."""

    session: aiohttp.ClientSession
    target: Target
    model: str
    rtt_s: float
    seed: int = 1
    _chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(f"round trips/{self.seed}")

    async def by_client(self, application: Application) -> Played:
        """Call by call: each is sent once the client has all answers that it reads."""
        return await self._timed(application, self._calls)

    async def by_server(self, application: Application) -> Played:
        """All calls at once: the gateway carries the answers on."""
        return await self._timed(application, self._run)

    async def _timed(
        self, application: Application, play: Callable[[Application, Played], Awaitable[str]]
    ) -> Played:
        played, began_s = Played(calls=len(application.calls)), now()
        try:
            played.result = await play(application, played)
        except* (CallFailed, aiohttp.ClientError, TimeoutError) as failed:
            first = failed.exceptions[0]
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            played.error = str(first) or type(first).__name__
        played.latency_s = now() - began_s
        return played

    async def _calls(self, application: Application, played: Played) -> str:
        loop = asyncio.get_running_loop()
        answers: dict[str, asyncio.Future[str]] = {
            call.name: loop.create_future() for call in application.calls
        }

        async def play(call: Call) -> None:
            needed = {name: await answers[name] for name in call.reads}
            body = filled(call, needed, self.model)
            answers[call.name].set_result(await self._away(lambda: self._chat(body, played)))

        async with asyncio.TaskGroup() as group:
            for call in application.calls:
                group.create_task(play(call))
        return "\n".join(answers[name].result() for name in application.wanted)

    async def _chat(self, body: dict[str, Any], played: Played) -> str:
        answer = await self._post("/chat/completions", body, played)
        _count(answer.get("usage"), played)
        try:
            return str(answer["choices"][0]["message"]["content"] or "")
        except (KeyError, IndexError, TypeError):
            raise CallFailed("an answer without choices") from None

    async def _run(self, application: Application, played: Played) -> str:
        answer = await self._away(lambda: self._post("/runs", application.run_body(self.model), played))
        _count(answer.get("usage"), played)
        played.run = str(answer.get("id") or "")
        variables = answer.get("variables") or {}
        values = []
        for name in application.wanted:
            found = variables.get(name) or {}
            value = found.get("value")
            if not isinstance(value, str):
                why = found.get("error") or answer.get("error") or answer.get("status")
                raise CallFailed(f"the run has no {name}: {_brief(why)}")
            values.append(value)
        return "\n".join(values)

    async def _away(self, asked: Callable[[], Awaitable[_T]]) -> _T:
        delay_s = self.rtt_s * self._chance.uniform(1 - _VARIES, 1 + _VARIES)
        await asyncio.sleep(delay_s / 2)
        answer = await asked()
        await asyncio.sleep(delay_s / 2)
        return answer

    async def _post(self, path: str, body: dict[str, Any], played: Played) -> dict[str, Any]:
        played.requests += 1
        url = f"{'https' if self.target.tls else 'http'}://{self.target.host_header}{self.target.root}{path}"
        async with self.session.post(url, data=orjson.dumps(body), headers=_JSON) as response:
            raw = await response.read()
        try:
            answer = orjson.loads(raw)
        except orjson.JSONDecodeError:
            answer = None
        if response.status != 200 or not isinstance(answer, dict):
            raise CallFailed(f"POST {self.target.root}{path}: HTTP {response.status} {_brief(raw)}")
        return answer


async def play_all(
    player: Player, applications: Sequence[Application], *, by_server: bool, at_once: int
) -> list[Played]:
    """Every application, at most so many at a time, in order."""
    places = asyncio.Semaphore(at_once)

    async def play(one: Application) -> Played:
        async with places:
            return await (player.by_server(one) if by_server else player.by_client(one))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(play(one)) for one in applications]
    return [task.result() for task in tasks]


async def first_model(session: aiohttp.ClientSession, target: Target) -> str:
    """The first model that the target lists. Raises EndpointError."""
    url = f"{'https' if target.tls else 'http'}://{target.host_header}{target.root}/models"
    try:
        async with session.get(url) as response:
            raw = await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise EndpointError(f"{target.base_url} cannot be asked: {error or type(error).__name__}") from None
    try:
        return str(orjson.loads(raw)["data"][0]["id"])
    except (ValueError, KeyError, IndexError, TypeError):
        raise EndpointError(
            f"{target.base_url} lists no models (GET {target.root}/models: HTTP {response.status}, {_brief(raw)}):"
            " name one with --model"
        ) from None


def _count(usage: Any, played: Played) -> None:
    if isinstance(usage, dict):
        played.prompt_tokens += int(usage.get("prompt_tokens") or 0)
        played.completion_tokens += int(usage.get("completion_tokens") or 0)


def _brief(what: Any) -> str:
    text = what.decode("utf-8", "replace") if isinstance(what, bytes) else str(what)
    return " ".join(text.split())[:160]
