"""Hears a message of `/v1/messages`, or its events. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from engines.answers.terminal import meaning_of
from engines.answers.usage import Told
from engines.codecs.parts import Hearing, Saying, failure_of
from engines.loose_json import member, objects, text


class HearingMessage(Hearing):
    """See Hearing."""

    def __init__(self, to: Saying) -> None:
        super().__init__(to)
        self._told = Told()
        self._reason = ""
        self._stop_sequence: str | None = None
        self._block: dict[str, Any] = {}
        """The one that has begun."""
        self._written = False
        """Some of its input has come."""

    def hear(self, event: dict[str, Any]) -> None:
        """See Hearing."""
        match event.get("type"):
            case "content_block_delta":
                self._hear_delta(event["delta"])
            case "content_block_start":
                self._begin_block(event["content_block"])
            case "content_block_stop":
                self._end_block()
            case "message_start":
                self._begin(event["message"])
            case "message_delta":
                self._hear_end(event.get("delta") or {})
                self._hear_usage(event)
            case "message_stop":
                self.done()
            case "ping":
                self.to.ping()
            case "error":
                self.to.fail(502, *failure_of(event))

    def hear_whole(self, answer: dict[str, Any]) -> bool:
        """See Hearing."""
        if not isinstance(answer.get("content"), list):
            return False
        self._begin(answer)
        for block in objects(answer["content"]):
            self._begin_block(block)
            self._end_block()
        self._hear_end(answer)
        self.done()
        return self.to.ended

    def done(self) -> None:
        """See Hearing."""
        if self._reason:
            self.to.end(self._reason, self._stop_sequence)

    def _begin(self, message: dict[str, Any]) -> None:
        self._hear_usage({"usage": message.get("usage")})
        self.to.begin(text(message.get("id")), text(message.get("model")))

    def _begin_block(self, block: dict[str, Any]) -> None:
        to, kind = self.to, block.get("type")
        self._block, self._written = block, False
        if kind == "text":
            if block.get("text"):
                to.text(block["text"])
            if block.get("citations"):
                to.lose("citations")
        elif kind == "thinking":
            if block.get("thinking"):
                to.reasoning(block["thinking"])
            if block.get("signature"):
                to.seal("thinking", block["signature"])
        elif kind == "redacted_thinking":
            to.seal("redacted_thinking", text(block.get("data")))
        elif kind == "tool_use":
            to.call(text(block.get("id")), text(block.get("name")))
        else:
            to.lose(str(kind))

    def _hear_delta(self, delta: dict[str, Any]) -> None:
        kind = delta.get("type")
        if kind == "text_delta":
            self.to.text(delta["text"])
        elif kind == "input_json_delta":
            if self._block.get("type") == "tool_use" and delta.get("partial_json"):
                self._written = True
                self.to.arguments(delta["partial_json"])
        elif kind == "thinking_delta":
            self.to.reasoning(delta["thinking"])
        elif kind == "signature_delta":
            self.to.seal("thinking", delta["signature"])
        else:
            self.to.lose(str(kind).removesuffix("_delta"))

    def _end_block(self) -> None:
        # A tool without arguments is called with no pieces of any.
        if self._block.get("type") == "tool_use" and not self._written:
            self.to.arguments(orjson.dumps(self._block.get("input") or {}).decode())
        self._block = {}

    def _hear_end(self, delta: dict[str, Any]) -> None:
        if delta.get("stop_reason"):
            self._reason = meaning_of(delta["stop_reason"])
            self._stop_sequence = delta.get("stop_sequence")

    def _hear_usage(self, holder: dict[str, Any]) -> None:
        if self._told.hear(holder, ()) and (used := self._told.amounts()) is not None:
            details = self._told.usage.get("output_tokens_details")
            self.to.use(used, member(details, "thinking_tokens") or member(details, "reasoning_tokens") or 0)
