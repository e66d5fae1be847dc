"""An engine over a batch: answers chat completions in the time that its batch takes, by the running loop.

For virtual_time. A token is four characters, as engines.chat estimates it. Unless it is told what to say,
the answer is words that depend on the prompt, exactly `max_tokens` long. As SimulatedEngine's, its replies say that they are
simulated.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from multidict import CIMultiDict

from benchmarks.batching.batch import Batch, Generation, Rules, Speed, Stretch
from benchmarks.batching.kv_blocks import block_hashes
from engines.chat import CHARACTERS_PER_TOKEN, estimated_tokens, message_text
from engines.engine import EngineInfo, EngineLoad, EngineReply, EngineRequest
from simulation.engine import FINGERPRINT, TOKENS_PER_MESSAGE

_DEFAULT_ANSWER_TOKENS = 128
Says = Callable[[Mapping[str, Any], str, int], Sequence[str]]
"""(the body, the prompt, the most tokens) -> the answer, in pieces that are told as they come; at least one character."""
_HEAD_CHARACTERS = TOKENS_PER_MESSAGE * CHARACTERS_PER_TOKEN


@dataclass(slots=True)
class Served:
    """What one request took. Times are the loop's, in s."""

    prompt_tokens: int
    cached_tokens: int
    answer_tokens: int
    arrived_s: float
    first_s: float = 0.0
    ended_s: float = 0.0

    @property
    def token_s(self) -> float:
        """Mean time per token after the first."""
        return (self.ended_s - self.first_s) / max(1, self.answer_tokens - 1)


class _Asked:
    """A generation and who waits for it."""

    __slots__ = ("ended", "first", "generation", "more", "pieces", "served")

    def __init__(self, generation: Generation, served: Served, pieces: Sequence[str]) -> None:
        self.generation = generation
        self.served = served
        self.pieces = pieces
        self.first = asyncio.Event()
        self.ended = asyncio.Event()
        self.more = asyncio.Event()
        """Set with each news; whoever waits for it clears it."""

    @property
    def text(self) -> str:
        """All of the answer."""
        return "".join(self.pieces)


class BatchingEngine:
    """See the module. `served` is told of each answer that came to its end."""

    def __init__(
        self,
        info: EngineInfo,
        speed: Speed,
        rules: Rules,
        served: Callable[[Served, EngineRequest], None] = lambda served, request: None,
        says: Says | None = None,
    ) -> None:
        self._info = info
        self._speed = speed
        self._rules = rules
        self._batch = Batch(speed, rules)
        self._served = served
        self._says = says or (lambda fields, prompt, most: [answer_text(prompt, most)])
        self._asked: dict[Generation, _Asked] = {}
        self._stretch: Stretch | None = None
        self._steps = 0
        self._began_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.busy_s = 0.0

    @property
    def info(self) -> EngineInfo:
        """See engines.engine.Engine."""
        return self._info

    @property
    def batch(self) -> Batch:
        """What it computes."""
        return self._batch

    def load(self) -> EngineLoad:
        """Requests that are computed, that wait, and the memory they hold."""
        return EngineLoad(
            self._batch.running + self._batch.waiting,
            self._batch.waiting,
            self._rules.max_running,
            kv_use=self._batch.kv_use,
            kv_tokens=self._speed.kv_tokens,
        )

    async def health(self) -> None:
        """Nothing can be down."""

    async def aclose(self) -> None:
        """Does nothing: there is nothing to close."""

    @asynccontextmanager
    async def stream(self, request: EngineRequest) -> AsyncIterator[EngineReply]:
        """Answers chat completions; leaving ends the generation with the step under way."""
        fields = _fields(request)
        prompt = prompt_text(fields["messages"])
        wanted = fields.get("max_completion_tokens") or fields.get("max_tokens") or _DEFAULT_ANSWER_TOKENS
        priority = fields.get("priority") or 0
        hashes = block_hashes(prompt, CHARACTERS_PER_TOKEN) if self._rules.prefix_cache else []
        pieces = _cut(self._says(fields, prompt, wanted), wanted)
        ends = _ends(pieces, wanted)
        one = Generation(hashes, estimated_tokens(prompt), ends[-1], priority, marks=ends[:-1])
        try:
            self._batch.add(one)
        except ValueError as error:
            yield self._whole(400, {"error": {"message": str(error), "code": "context_length_exceeded"}})
            return
        now = asyncio.get_running_loop().time()
        asked = self._asked[one] = _Asked(one, Served(one.prompt, 0, one.answer, now), pieces)
        self._wake()
        try:
            if fields.get("stream") is True:
                await asked.first.wait()
                headers = CIMultiDict({"content-type": "text/event-stream", "x-simulated": "true"})
                yield EngineReply(200, headers, self._events(fields, asked), self._info.name)
            else:
                await asked.ended.wait()
                yield self._whole(200, self._completion(fields, asked))
            if asked.ended.is_set():
                self._served(asked.served, request)
        finally:
            if not asked.ended.is_set():
                self._batch.remove(one)
                self._wake()
            del self._asked[one]

    # ---- steps

    def _wake(self) -> None:
        """The batch's requests changed: it begins, or sees to it when the step under way is over."""
        if self._timer is None:
            self._begin()
        elif self._stretch is not None and self._steps > 1:
            loop = asyncio.get_running_loop()
            self._steps = min(self._steps, self._stretch.steps_begun(loop.time() - self._began_s))
            self._timer.cancel()
            self._timer = loop.call_at(self._began_s + self._stretch.seconds(self._steps), self._end)

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._stretch = self._batch.begin()
        if self._stretch is None:
            self._timer = None
            return
        self._steps, self._began_s = self._stretch.steps, loop.time()
        self._timer = loop.call_at(self._began_s + self._stretch.seconds(), self._end)

    def _end(self) -> None:
        now = asyncio.get_running_loop().time()
        self.busy_s += now - self._began_s
        for one in self._batch.end(self._steps):
            asked = self._asked[one]
            if not asked.first.is_set():
                asked.served.first_s, asked.served.cached_tokens = now, one.cached
                asked.first.set()
            if not one.left:
                asked.served.ended_s = now
                asked.ended.set()
            asked.more.set()
        self._begin()

    # ---- what it says

    async def _events(self, fields: Mapping[str, Any], asked: _Asked) -> AsyncIterator[bytes]:
        """The first token when it is there, each piece when its last token is, and all others when the last is."""
        head = self._head(fields, "chat.completion.chunk")
        text = asked.text

        def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
            return _data({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        told = CHARACTERS_PER_TOKEN
        yield event({"role": "assistant", "content": text[:told]})
        while not asked.ended.is_set():
            asked.more.clear()
            whole = _whole_pieces(asked.pieces, asked.generation.produced)
            if whole > told:
                yield event({"content": text[told:whole]})
                told = whole
            await asked.more.wait()
        yield event({"content": text[told:]})
        yield event({}, "stop")
        options = fields.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage"):
            yield _data({**head, "choices": [], "usage": _usage(asked.served)})
        yield b"data: [DONE]\n\n"

    def _completion(self, fields: Mapping[str, Any], asked: _Asked) -> dict[str, Any]:
        message = {"role": "assistant", "content": asked.text}
        return {
            **self._head(fields, "chat.completion"),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": _usage(asked.served),
        }

    def _head(self, fields: Mapping[str, Any], kind: str) -> dict[str, Any]:
        model = str(fields.get("model") or self._info.model or self._info.name)
        return {
            "id": f"chatcmpl-{self._info.name}",
            "object": kind,
            "created": int(asyncio.get_running_loop().time()),
            "model": model,
            "system_fingerprint": FINGERPRINT,
        }

    def _whole(self, status: int, body: dict[str, Any]) -> EngineReply:
        data = json.dumps(body).encode()
        headers = CIMultiDict(
            {"content-type": "application/json", "content-length": str(len(data)), "x-simulated": "true"}
        )
        return EngineReply(status, headers, _one(data), self._info.name)


def prompt_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Messages as the engine reads them: each after a head of four tokens."""
    return "".join(
        f"<{m.get('role')}>".ljust(_HEAD_CHARACTERS, "\n") + message_text(m.get("content")) for m in messages
    )


def answer_text(prompt: str, tokens: int) -> str:
    """So many tokens of words that depend on the prompt: three letters and a blank each."""
    words: list[str] = []
    state = hashlib.blake2b(prompt.encode()).digest()
    while len(words) < tokens:
        words += [state[i : i + 2].hex()[:3] for i in range(0, len(state), 2)]
        state = hashlib.blake2b(state).digest()
    return " ".join(words[:tokens]) + " "


def _cut(pieces: Sequence[str], most: int) -> list[str]:
    """The same up to so many tokens."""
    left, kept = most * CHARACTERS_PER_TOKEN, []
    for piece in pieces:
        if left > 0:
            kept.append(piece[:left])
            left -= len(piece)
    return kept


def _ends(pieces: Sequence[str], most: int) -> list[int]:
    """With how many tokens of the answer each piece is there; they rise, up to `most`."""
    lengths = accumulate(len(piece) for piece in pieces)
    ends = [max(1, min(most, -(-length // CHARACTERS_PER_TOKEN))) for length in lengths]
    return list(dict.fromkeys(ends))


def _whole_pieces(pieces: Sequence[str], produced: int) -> int:
    """Characters of the pieces that are there."""
    lengths = accumulate(len(piece) for piece in pieces)
    return max((length for length in lengths if length <= produced * CHARACTERS_PER_TOKEN), default=0)


def _usage(served: Served) -> dict[str, Any]:
    prompt, answer = served.prompt_tokens, served.answer_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": served.cached_tokens},
    }


def _fields(request: EngineRequest) -> Mapping[str, Any]:
    if request.chat is not None:
        return request.chat.fields
    assert isinstance(request.body, bytes)
    fields: dict[str, Any] = json.loads(request.body)
    return fields


def _data(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data
