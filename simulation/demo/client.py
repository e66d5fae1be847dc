"""The audience of the demo: asks the gateway through the official OpenAI SDK, and grades what comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simulation.demo.settings import LARGE, MODEL, SMALL, Stage
from simulation.demo.results import Played, Route, Tally
from simulation.stream import Ask
from simulation.world import World, seeded

if TYPE_CHECKING:
    from openai import AsyncOpenAI

AfterEach = Callable[[], Awaitable[None]]

FORCED = {"Cache-Control": "no-store, no-cache", "x-understudy-examples": "0"}
"""Headers of the baselines: memory is neither read nor written, and no examples are sent along."""


class Audience:
    """Plays requests at a gateway and fills a tally."""

    def __init__(self, client: AsyncOpenAI, world: World, stage: Stage) -> None:
        self._client = client
        self._world = world
        self._stage = stage

    async def play(self, asks: Sequence[Ask], tally: Tally, after_each: AfterEach | None = None) -> None:
        """All of `asks`: one after the other, awaiting `after_each` in between, or at the stage's rate.

        Arrivals are random (exponential gaps, seeded) and do not wait for answers until `concurrency` are open.
        """
        await self._play(asks, tally, {}, after_each)

    async def ask_again(self, asks: Sequence[Ask], engine: str, tally: Tally) -> None:
        """Each of `asks` once more, as `play` does, of one engine by itself, leaving no trace in the gateway's memory."""
        await self._play(asks, tally, {**FORCED, "x-understudy-engine": engine}, None)

    async def _play(
        self, asks: Sequence[Ask], tally: Tally, headers: Mapping[str, str], after_each: AfterEach | None
    ) -> None:
        rate_per_s = self._stage.rate_per_s
        if rate_per_s is None:
            for ask in asks:
                await self._one(ask, tally, headers)
                if after_each is not None:
                    await after_each()
            return
        gaps = seeded("arrivals", self._stage.seed)
        room = asyncio.Semaphore(self._stage.concurrency)
        due = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for ask in asks:
                due += gaps.expovariate(rate_per_s)
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                await room.acquire()
                group.create_task(self._in_room(room, ask, tally, headers))

    async def _in_room(
        self, room: asyncio.Semaphore, ask: Ask, tally: Tally, headers: Mapping[str, str]
    ) -> None:
        try:
            await self._one(ask, tally, headers)
        finally:
            room.release()

    async def _one(self, ask: Ask, tally: Tally, headers: Mapping[str, str]) -> None:
        from openai import OpenAIError

        try:
            tally.played.append(await self._asked(ask, headers))
        except OpenAIError as error:
            tally.failures.append(f"{type(error).__name__}: {error}")

    async def _asked(self, ask: Ask, headers: Mapping[str, str]) -> Played:
        streamed = ask.number % 2 == 0
        create: Any = self._client.chat.completions.with_raw_response.create
        began = time.perf_counter()
        first = None
        if streamed:
            raw = await create(
                model=MODEL,
                messages=list(ask.messages),
                stream=True,
                stream_options={"include_usage": True},
                extra_headers=headers,
            )
            pieces: list[str] = []
            usage = None
            async for chunk in raw.parse():
                if chunk.choices and chunk.choices[0].delta.content:
                    first = first or time.perf_counter()
                    pieces.append(chunk.choices[0].delta.content)
                usage = chunk.usage or usage
            text = "".join(pieces)
        else:
            raw = await create(model=MODEL, messages=list(ask.messages), extra_headers=headers)
            completion = raw.parse()
            text, usage = completion.choices[0].message.content or "", completion.usage
        ended = time.perf_counter()
        grade = self._world.grade(ask.messages, text)
        route = _route(raw.headers)
        if not headers and route != "hit" and self._says(ask):
            await self._give_feedback(raw.headers["x-understudy-decision-id"], grade)
        return Played(
            number=ask.number,
            route=route,
            grade=grade,
            first_token_ms=((first or ended) - began) * 1000,
            total_ms=(ended - began) * 1000,
            prompt_tokens=usage.prompt_tokens if usage else 0,
            completion_tokens=usage.completion_tokens if usage else 0,
            examples=int(raw.headers.get("x-understudy-examples") or 0),
            overhead_ms=float(raw.headers.get("x-understudy-overhead-ms") or 0),
            streamed=streamed,
        )

    def _says(self, ask: Ask) -> bool:
        """Whether somebody says what they thought of the answer: a seeded share of the audience."""
        return seeded("feedback", self._stage.seed, ask.number).random() < self._stage.feedback_share

    async def _give_feedback(self, decision: str, grade: float) -> None:
        said = {"decision_id": decision, "score": grade}
        await self._client.post("/feedback", cast_to=object, body=said)


def _route(headers: Mapping[str, str]) -> Route:
    """Which way a request went, from the gateway's answer headers (RFC 9211 for hits)."""
    parameters = [part.strip() for part in headers.get("cache-status", "").split(";")]
    if "hit" in parameters:
        return "hit"
    engine = headers.get("x-understudy-engine", "")
    if engine == SMALL:
        return "offloaded" if int(headers.get("x-understudy-examples") or 0) > 0 else "small"
    if engine == LARGE:
        return "large"
    raise ValueError(f"the gateway answered without saying who did: x-understudy-engine is {engine!r}")
