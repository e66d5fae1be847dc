"""Says an answer as a text completion, or as its chunks. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from engines.codecs.saying_chat import SayingChat
from engines.sse import DONE, encode


class SayingCompletion(SayingChat):
    """See Saying. Of text alone: a prompt asks for nothing else."""

    def whole(self) -> dict[str, Any]:
        """See Saying."""
        choice = self._piece(self._message["content"] or "", self._choice["finish_reason"])
        return self._head | {"choices": [choice]} | self._told()

    def _begin(self, id: str, model: str, created_s: int) -> None:
        self._head = {"id": f"cmpl-{id}", "object": "text_completion", "created": created_s, "model": model}

    def _piece(self, text: str, reason: str | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}

    def _say(self, delta: dict[str, Any]) -> None:
        if self._streams:
            self._chunk(delta.get("content") or "", None)

    def _chunk(self, text: str, reason: str | None) -> None:
        usage = {"usage": None} if self.chat.include_usage else {}
        said = self._head | {"choices": [self._piece(text, reason)]} | usage
        self._out.append(encode(orjson.dumps(said)))

    def _end(self, reason: str, stop_sequence: str | None) -> None:
        self._choice["finish_reason"] = reason
        if not self._streams:
            return
        self._chunk("", reason)
        if self.chat.include_usage:
            self._out.append(encode(orjson.dumps(self._head | {"choices": []} | self._told())))
        self._out.append(DONE)
