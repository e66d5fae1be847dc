"""How engines behave: well, badly at first or always, and in ways that only a careful client can tell from an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from benchmarks.failover.texts import ANSWER, REWORDED, refusal
from benchmarks.failover.wall import Call, Script, chunk


async def healthy(call: Call) -> web.StreamResponse:
    """Answers. Given the beginning of its answer, as vLLM can be, it goes on; asked otherwise it says all of it."""
    if call.body.get("continue_final_message"):
        begun = str(call.body["messages"][-1].get("content") or "").strip()
        if begun and ANSWER.startswith(begun):
            return await call.answer(ANSWER[len(begun) :].strip())
    return await call.answer()


def saying(text: str) -> Script:
    """Always says this."""
    return lambda call: call.answer(text)


async def no_prefill(call: Call) -> web.StreamResponse:
    """Refuses to be given the beginning of its answer."""
    messages = call.body.get("messages") or [{}]
    if messages[-1].get("role") == "assistant":
        return await call.whole(
            400, refusal("This model does not support assistant message prefill.", "invalid_prefill")
        )
    return await call.answer()


def first(times: int, fault: Script, then: Script = healthy) -> Script:
    """Fails so many times, then does something else."""
    return lambda call: fault(call) if call.number <= times else then(call)


def down_until(ends_at_s: list[float], fault: Script, then: Script = healthy) -> Script:
    """Fails until a time of time.monotonic, which the scenario puts into the list."""
    return lambda call: fault(call) if not ends_at_s or time.monotonic() < ends_at_s[0] else then(call)


def refusing(
    status: int,
    message: str = "The engine is overloaded.",
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    body: bytes | None = None,
) -> Script:
    """An error status."""
    return lambda call: call.whole(status, refusal(message, code) if body is None else body, headers)


def limited(retry_after: str | None = None) -> Script:
    """429, and when to come back."""
    headers = {"Retry-After": retry_after} if retry_after else {}
    return refusing(429, "Rate limit reached.", "rate_limit_exceeded", headers)


async def reset(call: Call) -> web.StreamResponse:
    """A connection that is reset before an answer."""
    return await call.reset()


def silent(seconds: float) -> Script:
    """No byte of an answer for so long; then the connection is closed."""

    async def script(call: Call) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await call.reset()

    return script


def slow(seconds: float, then: Script = healthy) -> Script:
    """An answer whose head comes at once where it is a stream, and whose first word takes so long."""

    async def script(call: Call) -> web.StreamResponse:
        if not call.streams:
            await asyncio.sleep(seconds)
            return await then(call)
        await call.begin()
        await asyncio.sleep(seconds)
        await call.words(ANSWER)
        await call.event(chunk(call.seen.engine, {}, "stop"))
        return await call.raw(b"data: [DONE]\n\n")

    return script


def words_then(words: int, *, stall_s: float = 0.0) -> Script:
    """A stream of so many words, and then nothing; cut, after so long."""

    async def script(call: Call) -> web.StreamResponse:
        await call.begin()
        await call.words(" ".join(ANSWER.split()[:words]))
        await asyncio.sleep(stall_s)
        return await call.cut()

    return script


async def garbled(call: Call) -> web.StreamResponse:
    """A stream whose tenth event is no JSON."""
    words = ANSWER.split()
    await call.begin()
    await call.words(" ".join(words[:10]))
    await call.raw(b'data: {"id":"c","choices":[{"index":0,"delta":{"content"\n\n')
    for word in words[10:]:
        await call.event(chunk(call.seen.engine, {"content": f" {word}"}))
    await call.event(chunk(call.seen.engine, {}, "stop"))
    return await call.raw(b"data: [DONE]\n\n")


async def without_done(call: Call) -> web.StreamResponse:
    """A whole stream, but for its `[DONE]`."""
    await call.begin()
    await call.words(ANSWER)
    await call.event(chunk(call.seen.engine, {}, "stop"))
    usage = {"prompt_tokens": 20, "completion_tokens": 60, "total_tokens": 80}
    await call.event({**chunk(call.seen.engine, {}), "choices": [], "usage": usage})
    assert call.request.transport is not None
    return await call.raw(b"")


def comments(seconds: float, *, then_cut: bool = False) -> Script:
    """A comment a second for so long, then an answer."""

    async def script(call: Call) -> web.StreamResponse:
        await call.begin(role=False)
        for _ in range(int(seconds)):
            await call.raw(b": keep-alive\n\n")
            await asyncio.sleep(1.0)
        if then_cut:
            return await call.cut()
        await call.words(ANSWER)
        await call.event(chunk(call.seen.engine, {}, "stop"))
        return await call.raw(b"data: [DONE]\n\n")

    return script


def streamed(*events: Any, end: str = "close") -> Script:
    """These events after the head: bytes as they are, else as JSON. `cut`: the connection is then closed."""

    async def script(call: Call) -> web.StreamResponse:
        await call.begin(role=False)
        for told in events:
            if isinstance(told, bytes):
                await call.raw(told)
            else:
                await call.event(told)
        return await (call.cut() if end == "cut" else call.raw(b""))

    return script


def plain(body: bytes, *, short_by: int = 0) -> Script:
    """A 200 with this body, whatever was asked for; `short_by`: the connection is closed so many bytes before its end."""

    async def script(call: Call) -> web.StreamResponse:
        if not short_by:
            return await call.whole(200, body)
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Content-Length": str(len(body))}
        )
        await response.prepare(call.request)
        await response.write(body[:-short_by])
        assert call.request.transport is not None
        call.request.transport.close()
        return response

    return script


class Quota:
    """So many requests in each window, told in `x-ratelimit-*`; 429 beyond."""

    def __init__(self, requests: int, window_s: float) -> None:
        self._requests, self._window_s = requests, window_s
        self._began, self._used = 0.0, 0
        self.refused = 0

    async def __call__(self, call: Call) -> web.StreamResponse:
        """Answer, or refuse."""
        now = time.monotonic()
        if now - self._began >= self._window_s:
            self._began, self._used = now, 0
        self._used += 1
        left_s = self._window_s - (now - self._began)
        headers = {
            "x-ratelimit-limit-requests": str(self._requests),
            "x-ratelimit-remaining-requests": str(max(0, self._requests - self._used)),
            "x-ratelimit-reset-requests": f"{left_s:.3f}s",
        }
        if self._used > self._requests:
            self.refused += 1
            return await call.whole(429, refusal("Rate limit reached.", "rate_limit_exceeded"), headers)
        return await call.answer(headers=headers)


def _words(begin: int, end: int) -> str:
    return " ".join(ANSWER.split()[begin:end])


def disobedient(cut_after: int) -> dict[str, Script]:
    """Engines that do not go on with an answer of which so many words were said, however they are asked."""
    anchor = _words(cut_after - 8, cut_after)
    other = REWORDED.split()
    return {
        "rewords": saying(REWORDED),
        "prefaces": saying(f"Of course! Here is the rest: {_words(cut_after, 60)}"),
        "goes-on-unasked": saying(_words(cut_after, 60)),
        "changes-one-word": saying(f"{anchor.rpartition(' ')[0]} otherwise {_words(cut_after, 60)}"),
        "drifts": saying(f"{_words(0, cut_after - 5)} {' '.join(other[:20])}"),
        "repeats-four-words": saying(_words(cut_after - 4, 60)),
        "says-nothing": saying(""),
        "apologises": saying("I am sorry, but I cannot help with that."),
    }
