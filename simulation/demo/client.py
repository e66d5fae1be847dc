"""The demo's client: sends requests to the gateway through the official OpenAI SDK, and grades the answers."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulation.demo.keys import is_limited
from simulation.demo.results import Answers, GradedAnswer, Route
from simulation.demo.settings import LARGE, LIMITED_KEY, MODEL, SMALL, DemoSettings
from simulation.stream import Ask
from simulation.world import World, seeded

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import CompletionUsage

AfterEach = Callable[[], Awaitable[None]]

WITHOUT_MEMORY = {"Cache-Control": "no-store, no-cache", "x-understudy-examples": "0"}
"""Headers of the baselines: memory is neither read nor written, and no examples are added."""


@dataclass(frozen=True, slots=True)
class _Reply:
    text: str
    usage: CompletionUsage | None
    headers: Mapping[str, str]
    first_token_at: float | None = None


class Client:
    """Sends requests to a gateway and collects the graded answers."""

    def __init__(self, openai: AsyncOpenAI, world: World, settings: DemoSettings) -> None:
        self._openai = openai
        self._limited = openai.with_options(api_key=LIMITED_KEY) if settings.has_keys else openai
        """With the key that has limits, where there is one."""
        self._world = world
        self._settings = settings

    async def send(self, asks: Sequence[Ask], answers: Answers, after_each: AfterEach | None = None) -> None:
        """Send all of `asks`: at the rate of the settings, or one after the other, awaiting `after_each` in between.

        Arrivals at a rate are random (exponential gaps, seeded) and wait for answers only while `concurrency` are open.
        """
        await self._send(asks, answers, {}, after_each)

    async def send_to_engine(self, asks: Sequence[Ask], engine: str, answers: Answers) -> None:
        """Send all of `asks` to one engine, as `send` does, without reading or writing the gateway's memory."""
        await self._send(asks, answers, {**WITHOUT_MEMORY, "x-understudy-engine": engine}, None)

    async def _send(
        self, asks: Sequence[Ask], answers: Answers, headers: Mapping[str, str], after_each: AfterEach | None
    ) -> None:
        rate_per_s = self._settings.rate_per_s
        if rate_per_s is None:
            ends = time.perf_counter() + (self._settings.seconds or math.inf)
            for ask in asks:
                if time.perf_counter() > ends:
                    break
                await self._send_one(ask, answers, headers)
                if after_each is not None:
                    await after_each()
            return
        gaps = seeded("arrivals", self._settings.seed)
        open_requests = asyncio.Semaphore(self._settings.concurrency)
        due = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for ask in asks:
                due += gaps.expovariate(rate_per_s)
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                await open_requests.acquire()
                group.create_task(self._send_and_release(open_requests, ask, answers, headers))

    async def _send_and_release(
        self, open_requests: asyncio.Semaphore, ask: Ask, answers: Answers, headers: Mapping[str, str]
    ) -> None:
        try:
            await self._send_one(ask, answers, headers)
        finally:
            open_requests.release()

    async def _send_one(self, ask: Ask, answers: Answers, headers: Mapping[str, str]) -> None:
        from openai import OpenAIError

        try:
            answers.graded.append(await self._graded_answer(ask, headers, answers))
        except OpenAIError as error:
            answers.failures.append(f"{type(error).__name__}: {error}")

    async def _score(self, ask: Ask, feedback: Mapping[str, Any], answers: Answers) -> None:
        """Give feedback on an answer. That it is not taken does not undo the answer."""
        from openai import OpenAIError

        try:
            await self._sdk(ask, {}).post("/feedback", cast_to=object, body=feedback)
        except OpenAIError:
            answers.feedback_refused += 1

    async def _graded_answer(self, ask: Ask, headers: Mapping[str, str], answers: Answers) -> GradedAnswer:
        streamed = ask.number % 2 == 0
        began = time.perf_counter()
        reply = await (self._streamed if streamed else self._plain)(ask, headers)
        ended = time.perf_counter()
        grade = self._world.grade(ask.messages, reply.text)
        route = route_of(reply.headers)
        if not headers and route != "hit" and self._is_scored(ask):
            feedback = {"decision_id": reply.headers["x-understudy-decision-id"], "score": grade}
            await self._score(ask, feedback, answers)
        return GradedAnswer(
            number=ask.number,
            route=route,
            grade=grade,
            first_token_ms=((reply.first_token_at or ended) - began) * 1000,
            total_ms=(ended - began) * 1000,
            prompt_tokens=reply.usage.prompt_tokens if reply.usage else 0,
            completion_tokens=reply.usage.completion_tokens if reply.usage else 0,
            examples=int(reply.headers.get("x-understudy-examples") or 0),
            overhead_ms=float(reply.headers.get("x-understudy-overhead-ms") or 0),
            streamed=streamed,
        )

    def _sdk(self, ask: Ask, headers: Mapping[str, str]) -> AsyncOpenAI:
        """With the key that a request is sent with: baselines have no limits."""
        return self._limited if not headers and is_limited(ask) else self._openai

    async def _plain(self, ask: Ask, headers: Mapping[str, str]) -> _Reply:
        create: Any = self._sdk(ask, headers).chat.completions.with_raw_response.create
        raw = await create(model=MODEL, messages=list(ask.messages), extra_headers=headers)
        completion = raw.parse()
        return _Reply(completion.choices[0].message.content or "", completion.usage, raw.headers)

    async def _streamed(self, ask: Ask, headers: Mapping[str, str]) -> _Reply:
        create: Any = self._sdk(ask, headers).chat.completions.with_raw_response.create
        raw = await create(
            model=MODEL,
            messages=list(ask.messages),
            stream=True,
            stream_options={"include_usage": True},
            extra_headers=headers,
        )
        pieces: list[str] = []
        first_token_at = None
        usage = None
        async for chunk in raw.parse():
            if chunk.choices and chunk.choices[0].delta.content:
                first_token_at = first_token_at or time.perf_counter()
                pieces.append(chunk.choices[0].delta.content)
            usage = chunk.usage or usage
        return _Reply("".join(pieces), usage, raw.headers, first_token_at)

    def _is_scored(self, ask: Ask) -> bool:
        """Whether feedback is given on the answer: a seeded share of the requests."""
        return seeded("feedback", self._settings.seed, ask.number).random() < self._settings.feedback_share


def route_of(headers: Mapping[str, str]) -> Route:
    """Who answered a request, from the gateway's response headers (RFC 9211 for hits).

    A request that followed the same one, which was being answered, counts as a hit: no engine was asked for it.
    """
    parameters = [part.strip() for part in headers.get("cache-status", "").split(";")]
    if "hit" in parameters or "collapsed" in parameters:
        return "hit"
    engine = headers.get("x-understudy-engine", "")
    if engine == SMALL:
        return "offloaded" if int(headers.get("x-understudy-examples") or 0) > 0 else "small"
    if engine == LARGE:
        return "large"
    raise ValueError(f"the gateway answered without saying who did: x-understudy-engine is {engine!r}")
