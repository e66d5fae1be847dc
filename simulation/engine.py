"""A simulated engine: answers questions about the simulated world with modelled delays, and is marked in every reply.

Each reply carries the header `x-simulated: true` and `"system_fingerprint": "simulated"`. The texts come from
simulation.minds, simulation.judge, simulation.generator or simulation.quoting; this module holds the wire format, the delays
and the queue.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from multidict import CIMultiDict

from engines.chat import estimated_tokens, message_text
from engines.engine import EngineInfo, EngineLoad, EngineReply, EngineRequest
from simulation.generator import variations
from simulation.judge import verdict
from simulation.minds import TURNED_BAD, Role, reply
from simulation.quoting import quoted
from simulation.world import World, seeded

FINGERPRINT = "simulated"
TOKENS_PER_MESSAGE = 4
"""Tokens that the framing of one message adds, as chat templates do."""
_PIECE = re.compile(r"\s*\S+")


@dataclass(frozen=True, slots=True)
class _Choice:
    """One choice of an answer, cut to the requested length, in the pieces it is streamed in."""

    pieces: tuple[str, ...]
    finish_reason: str

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def tokens(self) -> int:
        return sum(estimated_tokens(p) for p in self.pieces)


class SimulatedEngine:
    """Lead, understudy, judge or generator. The text depends on (seed, messages); delays are modelled and scaled by
    `pace`."""

    def __init__(
        self,
        info: EngineInfo,
        *,
        role: Role | Literal["judge", "generator", "reader"],
        world: World,
        ttft_ms: float,
        token_ms: float,
        capacity: int,
        pace: float = 1.0,
        seed: int = 7,
        prefill_ms_per_ktok: float = 0.0,
        jitter: float = 0.15,
        turns_bad_at: Path | None = None,
    ) -> None:
        """`ttft_ms` and `token_ms`: time to first token and per further token; a prompt adds `prefill_ms_per_ktok` per
        thousand of its tokens. `capacity`: concurrent answers; further requests queue in order of arrival. `jitter`: delays
        vary by up to this share, by request. `turns_bad_at`: once this file is there, an understudy gets nearly everything
        wrong. Raises ValueError.
        """
        if capacity < 1:
            raise ValueError(f"engine {info.name}: capacity must be at least 1, not {capacity}")
        if min(ttft_ms, token_ms, pace, prefill_ms_per_ktok) < 0:
            raise ValueError(
                f"engine {info.name}: ttft_ms, token_ms, pace and prefill_ms_per_ktok must not be negative"
            )
        self._info = info
        self._role = role
        self._world = world
        self._ttft_ms = ttft_ms
        self._token_ms = token_ms
        self._capacity = capacity
        self._pace = pace
        self._seed = seed
        self._prefill_ms_per_ktok = prefill_ms_per_ktok
        self._jitter = jitter
        self._turns_bad_at = turns_bad_at
        self._slots = asyncio.Semaphore(capacity)
        self._in_flight = 0
        self._queued = 0

    @property
    def info(self) -> EngineInfo:
        return self._info

    def load(self) -> EngineLoad:
        """Slots in use, and requests waiting for one."""
        return EngineLoad(self._in_flight, self._queued, self._capacity)

    async def health(self) -> None:
        """Nothing can be down."""

    async def aclose(self) -> None:
        """Does nothing: there is nothing to close."""

    @asynccontextmanager
    async def stream(self, request: EngineRequest) -> AsyncIterator[EngineReply]:
        """Answers `POST /chat/completions` and `GET /models`; anything else gets OpenAI's 404.

        Waits for a free slot, then for the first token (of a stream) or the last (otherwise). Leaving the context frees
        the slot at once.
        """
        path = request.target.partition("?")[0].rstrip("/")
        if request.method == "GET" and path.endswith("/models"):
            yield self._whole(200, {"object": "list", "data": [self._model_card()]})
            return
        if request.method != "POST" or not path.endswith("/chat/completions"):
            yield self._refusal(
                404, f"A simulated engine has no {request.method} {path}.", code="unknown_url"
            )
            return
        fields = _fields(request)
        messages = fields.get("messages") if fields else None
        if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
            yield self._refusal(
                400,
                "The body must be a JSON object with a non-empty array `messages` of objects.",
                param="messages",
            )
            return
        assert fields is not None
        prompt_tokens = count_prompt_tokens(messages)
        limit = self._info.context_tokens
        if limit is not None and prompt_tokens > limit:
            text = (
                f"This model's maximum context length is {limit} tokens. Your messages are {prompt_tokens}."
            )
            yield self._refusal(400, text, param="messages", code="context_length_exceeded")
            return
        async with self._slot():
            said = self._say(fields, messages)
            first_s, per_token_s = self._times(messages, prompt_tokens)
            if fields.get("stream") is True:
                await self._sleep(first_s)
                headers = CIMultiDict(
                    {"content-type": "text/event-stream; charset=utf-8", "x-simulated": "true"}
                )
                yield EngineReply(
                    200, headers, self._events(fields, said, prompt_tokens, per_token_s), self._info.name
                )
            else:
                await self._sleep(first_s + per_token_s * max(s.tokens for s in said))
                yield self._whole(200, self._completion(fields, said, prompt_tokens))

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        self._queued += 1
        try:
            await self._slots.acquire()
        finally:
            self._queued -= 1
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._slots.release()

    async def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            await asyncio.sleep(seconds)

    def _times(self, messages: list[dict[str, Any]], prompt_tokens: int) -> tuple[float, float]:
        """Seconds to the first token, and per token after it, for this request."""
        rng = seeded("pace", self._seed, self._info.name, json.dumps(messages, sort_keys=True, default=str))
        scale = self._pace * (1 + self._jitter * rng.uniform(-1, 1)) / 1000
        return scale * (
            self._ttft_ms + self._prefill_ms_per_ktok * prompt_tokens / 1000
        ), scale * self._token_ms

    def _say(self, fields: dict[str, Any], messages: list[dict[str, Any]]) -> list[_Choice]:
        wanted = fields.get("n")
        choices = wanted if isinstance(wanted, int) and 1 <= wanted <= 128 else 1
        limit = fields.get("max_completion_tokens", fields.get("max_tokens"))
        limit = limit if isinstance(limit, int) and limit > 0 else None
        return [_cut(self._text(messages, i), limit) for i in range(choices)]

    def _text(self, messages: list[dict[str, Any]], choice: int) -> str:
        if self._role == "judge":
            return verdict(self._world, self._seed, messages, choice)
        if self._role == "reader":
            return quoted(messages)
        if self._role == "generator":
            return variations(self._world, self._seed, messages, choice)
        bad = self._turns_bad_at is not None and self._turns_bad_at.exists()
        mind = TURNED_BAD if bad and self._role == "understudy" else None
        return reply(self._world, self._role, self._seed, messages, choice, mind)

    async def _events(
        self, fields: dict[str, Any], said: list[_Choice], prompt_tokens: int, per_token_s: float
    ) -> AsyncIterator[bytes]:
        head = self._head(fields, "chat.completion.chunk")
        options = fields.get("stream_options")
        with_usage = isinstance(options, dict) and options.get("include_usage") is True
        if with_usage:
            head["usage"] = None

        def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
            return b"data: " + _json({**head, "choices": choices, **more}) + b"\n\n"

        for i in range(len(said)):
            yield event([_delta(i, {"role": "assistant", "content": ""})])
        for position in range(max(len(s.pieces) for s in said)):
            now = [(i, s.pieces[position]) for i, s in enumerate(said) if position < len(s.pieces)]
            await self._sleep(per_token_s * max(estimated_tokens(p) for _, p in now))
            for i, piece in now:
                yield event([_delta(i, {"content": piece})])
        for i, one in enumerate(said):
            yield event([_delta(i, {}, one.finish_reason)])
        if with_usage:
            yield event([], usage=_usage(prompt_tokens, said))
        yield b"data: [DONE]\n\n"

    def _completion(self, fields: dict[str, Any], said: list[_Choice], prompt_tokens: int) -> dict[str, Any]:
        choices = [
            {
                "index": i,
                "message": {"role": "assistant", "content": s.text, "refusal": None},
                "logprobs": None,
                "finish_reason": s.finish_reason,
            }
            for i, s in enumerate(said)
        ]
        return {
            **self._head(fields, "chat.completion"),
            "choices": choices,
            "usage": _usage(prompt_tokens, said),
        }

    def _head(self, fields: dict[str, Any], kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": kind,
            "created": int(time.time()),
            "model": str(fields.get("model") or self._info.model or self._info.name),
            "system_fingerprint": FINGERPRINT,
        }

    def _model_card(self) -> dict[str, Any]:
        return {
            "id": self._info.model or self._info.name,
            "object": "model",
            "created": 0,
            "owned_by": FINGERPRINT,
        }

    def _whole(self, status: int, body: dict[str, Any]) -> EngineReply:
        data = _json(body)
        headers = CIMultiDict(
            {"content-type": "application/json", "content-length": str(len(data)), "x-simulated": "true"}
        )
        return EngineReply(status, headers, _one(data), self._info.name)

    def _refusal(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> EngineReply:
        error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
        return self._whole(status, {"error": error})


def count_prompt_tokens(messages: list[dict[str, Any]]) -> int:
    """Tokens of a prompt, estimated as engines.chat does."""
    return sum(TOKENS_PER_MESSAGE + estimated_tokens(message_text(m.get("content"))) for m in messages)


def _fields(request: EngineRequest) -> dict[str, Any] | None:
    if request.chat is not None:
        return dict(request.chat.fields)
    if not isinstance(request.body, bytes):
        return None
    try:
        fields = json.loads(request.body)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def _cut(text: str, limit: int | None) -> _Choice:
    pieces: list[str] = []
    used = 0
    for piece in _pieces(text):
        used += estimated_tokens(piece)
        if limit is not None and used > limit:
            return _Choice(tuple(pieces), "length")
        pieces.append(piece)
    return _Choice(tuple(pieces), "stop")


def _pieces(text: str) -> Iterator[str]:
    """Words with the space before them: the content of each chunk of a stream."""
    return (m[0] for m in _PIECE.finditer(text))


def _delta(index: int, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _usage(prompt_tokens: int, said: list[_Choice]) -> dict[str, int]:
    completion = sum(s.tokens for s in said)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": prompt_tokens + completion,
    }


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data
