"""Reads an OpenAI answer, streamed or whole, as far as its measurement needs: first token, tokens, usage, how it ended.

Every event is parsed (about 1 microsecond): otherwise comments, role-only openings and usage chunks would be mistaken for
tokens. Knows nothing of sockets.
"""

from __future__ import annotations

from typing import Any

import orjson

_TEXT_FIELDS = (
    "content",
    "reasoning_content",
    "reasoning",
    "refusal",
    "tool_calls",
    "function_call",
    "audio",
)


class StreamReader:
    """Reads the body of a streamed answer. `tokens_seen` counts events with content."""

    __slots__ = (
        "_keep_text",
        "_tail",
        "error",
        "model",
        "saw_done",
        "saw_finish",
        "text",
        "tokens_seen",
        "usage",
    )

    def __init__(self, keep_text: bool = False) -> None:
        self.tokens_seen = 0
        self.saw_done = False
        self.saw_finish = False
        self.error = ""
        self.model = ""
        self.usage: dict[str, Any] | None = None
        self.text: list[str] = []
        self._keep_text = keep_text
        self._tail = b""

    def feed(self, data: bytes) -> int:
        """Takes body bytes; returns the number of complete new events with content."""
        data = self._tail + data if self._tail else data
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        events = data.split(b"\n\n")
        self._tail = events.pop()
        fresh = 0
        for event in events:
            if event.startswith(b"data:"):
                payload = event[5:]
            else:
                at = event.find(b"\ndata:")
                if at < 0:
                    continue  # a comment, such as a keep-alive ping
                payload = event[at + 6 :]
            fresh += self._take(payload.strip())
        self.tokens_seen += fresh
        return fresh

    def _take(self, payload: bytes) -> int:
        if payload == b"[DONE]":
            self.saw_done = True
            return 0
        try:
            chunk = orjson.loads(payload)
        except ValueError:
            self.error = self.error or "not JSON in an event"
            return 0
        if not isinstance(chunk, dict):
            self.error = self.error or "an event that is not an object"
            return 0
        if chunk.get("error"):
            self.error = self.error or "error event"
            return 0
        if chunk.get("usage"):
            self.usage = chunk["usage"]
        if not self.model:
            self.model = str(chunk.get("model") or "")
        carries = 0
        for choice in chunk.get("choices") or ():
            if choice.get("finish_reason"):
                self.saw_finish = True
            text = choice.get("text") or _content(choice.get("delta"))
            if text:
                carries = 1
                if self._keep_text and isinstance(text, str):
                    self.text.append(text)
        return carries

    @property
    def complete(self) -> bool:
        """Whether the stream has sent its terminal event."""
        return self.saw_done or self.saw_finish


def _content(delta: Any) -> Any:
    if not delta:
        return None
    for field in _TEXT_FIELDS:
        if found := delta.get(field):
            return found
    return None


def read_message(body: bytes) -> tuple[str, dict[str, Any] | None, str, str]:
    """(what is wrong or "", usage, model, text) of a whole JSON answer of any of the three endpoints."""
    try:
        message = orjson.loads(body)
    except ValueError:
        return "not JSON", None, "", ""
    if not isinstance(message, dict):
        return "not an OpenAI answer", None, "", ""
    usage, model = message.get("usage"), str(message.get("model") or "")
    if message.get("choices"):
        choice = message["choices"][0]
        text = choice.get("text") or (choice.get("message") or {}).get("content") or ""
        return "", usage, model, text if isinstance(text, str) else ""
    if message.get("data") is not None:
        return "", usage, model, ""
    return ("error in a 200 answer" if message.get("error") else "not an OpenAI answer"), usage, model, ""
