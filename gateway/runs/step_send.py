"""Takes the answer of a step: the `send` of a request that no client waits for, whose text becomes a variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from multidict import CIMultiDict

from engines.answers.answer import Body
from engines.answers.heard import Heard
from engines.answers.merging import merge_delta
from engines.chat import Usage
from engines.codecs.chat import CHAT
from engines.errors import EngineError
from engines.sse import EventCutter, json_events
from gateway.send import ClientGone, Write


class StepSend:
    """See gateway.send.Send. `said` takes each piece of the first choice's text as it comes; it must not block.

    An answer whose text is longer than `max_text_bytes` is broken off: `too_large` tells.
    """

    __slots__ = (
        "_body",
        "_body_bytes",
        "_cutter",
        "_encoded",
        "_heard",
        "_kind",
        "_max_text_bytes",
        "_pieces",
        "_said",
        "_size_bytes",
        "_streamed",
        "broken",
        "calls",
        "finish_reason",
        "refusal",
        "status",
        "too_large",
    )

    gone = False
    """It has no reader that could leave. See gateway.send.Send."""

    def __init__(self, said: Callable[[str], object], *, max_text_bytes: int) -> None:
        self._said = said
        self._max_text_bytes = max_text_bytes
        self._pieces: list[str] = []
        self._size_bytes = self._body_bytes = 0
        self._cutter = EventCutter()
        self._body: list[bytes] = []
        self._streamed = self._encoded = False
        self._heard: Heard | None = None
        self._kind = ""
        self.status = 0
        """Of the answer; 0 before there is one."""
        self.broken = ""
        """Why the answer broke off after it had begun."""
        self.refusal = ""
        """The engine's own error, where its answer is one: the beginning of its body."""
        self.finish_reason = ""
        """Why the engine ended the answer; empty where it did not say."""
        self.calls: list[dict[str, Any]] = []
        """The calls of tools that the answer holds, as a message has them."""
        self.too_large = False

    @property
    def text(self) -> str:
        """What was said so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def used(self, prompt_tokens: int) -> Usage | None:
        """Tokens of prompt and answer (engines.answers.heard); None if there was no answer."""
        return None if self._heard is None else self._heard.usage(prompt_tokens)

    def whole(
        self, status: int, headers: CIMultiDict[str], body: bytes | None, reason: str | None = None
    ) -> None:
        """See Send."""
        self.begins(status, headers)
        self._body.append(body or b"")
        self._body_bytes = len(body or b"")
        self._read_whole()

    async def begin(self, status: int, headers: CIMultiDict[str], reason: str | None = None) -> Write:
        """See Send."""
        self.begins(status, headers)
        return self._fed

    async def end(self) -> None:
        """See Send."""
        self.ends()

    async def break_off(self, error: EngineError) -> None:
        """See Send."""
        self.ends(error)

    async def _fed(self, chunk: bytes) -> None:
        self.feed(chunk)

    # ---- the same for who only reads along: see gateway.send.Watcher

    def begins(self, status: int, headers: CIMultiDict[str]) -> None:
        """Take note of the head."""
        self.status = status
        self._kind = headers.get("Content-Type", "")
        self._encoded = headers.get("Content-Encoding", "identity").lower() != "identity"
        self._streamed = self._kind.startswith("text/event-stream") and not self._encoded and status < 400

    def feed(self, chunk: bytes) -> None:
        """Read a chunk. Raises ClientGone where no more of it is wanted."""
        if self._streamed:
            if whole := self._cutter.whole(chunk):
                self._read_events(whole)
            if self.too_large:
                raise ClientGone
            return
        self._body_bytes += len(chunk)
        if self._body_bytes > 4 * self._max_text_bytes + 65_536:
            self.too_large = True
            raise ClientGone
        self._body.append(chunk)

    def ends(self, error: EngineError | None = None) -> None:
        """Read what is left."""
        if error is not None:
            self.broken = error.message
        elif self._body:
            self._read_whole()
        elif rest := self._cutter.rest():
            self._read_events(rest)

    def _read_events(self, whole: bytes) -> None:
        for event in json_events(whole):
            self._read_event(event)

    def _read_event(self, event: dict[str, Any]) -> None:
        if isinstance(error := event.get("error"), dict):
            self.broken = str(error.get("message") or "the stream ended with an error")
        self._heard = self._heard or Heard()
        self._heard.hear(event)
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict) or choice.get("index", 0) != 0:
                continue
            delta = choice.get("delta")
            if isinstance(delta, dict):
                if isinstance(text := delta.get("content"), str) and text:
                    self._add(text)
                if delta.get("tool_calls"):
                    message = {"tool_calls": self.calls}
                    merge_delta(message, {"tool_calls": delta["tool_calls"]}, [])
                    self.calls = message["tool_calls"]
            if isinstance(reason := choice.get("finish_reason"), str):
                self.finish_reason = reason

    def _read_whole(self) -> None:
        body = Body(self._body, self._body_bytes, self._kind, self._encoded)
        if self.status >= 400:
            self.refusal = _error_text(body)
            return
        assembled = CHAT.assembled(body)
        if assembled is None:
            self.broken = "the answer holds no chat completion"
            return
        self._heard = assembled.heard
        if assembled.calls_tools():
            self.calls = assembled.choices()[0]["message"]["tool_calls"]
        self.finish_reason = assembled.finish_reason()
        if text := assembled.text():
            self._add(text)

    def _add(self, text: str) -> None:
        self._size_bytes += len(text) if text.isascii() else len(text.encode())
        if self._size_bytes > self._max_text_bytes:
            self.too_large = True
            return
        self._pieces.append(text)
        self._said(text)


def _error_text(body: Body) -> str:
    """The message of an error in OpenAI's shape, else the beginning of the body."""
    try:
        raw = body.decoded()
    except Exception:
        return ""
    try:
        parsed = orjson.loads(raw)
        return str(parsed["error"]["message"])[:1000]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return raw[:1000].decode("utf-8", "replace")
