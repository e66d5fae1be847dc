"""Says an answer as a chat completion, or as its chunks. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from engines.answers.usage import chat_usage
from engines.chat import ChatRequest
from engines.codecs.parts import Saying
from engines.sse import DONE, encode

_REASONS = {"pause_turn": "stop"}


class SayingChat(Saying):
    """See Saying. Reasoning is `reasoning_content`, as most servers of this API have it, and what is sealed of it is in
    `thinking_blocks`, which is how its clients hand it back."""

    def __init__(self, chat: ChatRequest, *, streams: bool) -> None:
        super().__init__(chat, streams=streams)
        self._message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        self._head: dict[str, Any] = {}
        self._choice: dict[str, Any] = {"index": 0, "message": self._message, "logprobs": None}
        self._calls: list[dict[str, Any]] = []
        self._before = self._after = b""
        """What stands around the delta of a chunk."""

    def whole(self) -> dict[str, Any]:
        """See Saying."""
        answer = self._head | {"object": "chat.completion", "choices": [self._choice]}
        return answer | self._told()

    def _told(self) -> dict[str, Any]:
        tier = {"service_tier": self.usage.service_tier} if self.usage.service_tier else {}
        return {"usage": chat_usage(self.usage, self.reasoning_tokens), **tier}

    def _begin(self, id: str, model: str, created_s: int) -> None:
        self._head = {"id": f"chatcmpl-{id}", "object": "", "created": created_s, "model": model}
        if self._streams:
            head = orjson.dumps(self._chunk_head())
            self._before = b"data: " + head[:-1] + b',"choices":[{"index":0,"delta":'
            self._after = b',"logprobs":null,"finish_reason":null}]}\n\n'
            self._say({"role": "assistant", "content": "", "refusal": None})

    def _chunk_head(self) -> dict[str, Any]:
        head = self._head | {"object": "chat.completion.chunk"}
        # With include_usage OpenAI puts a null usage on every chunk but the last.
        return head | {"usage": None} if self.chat.include_usage else head

    def _say(self, delta: dict[str, Any]) -> None:
        if self._streams:
            self._out.append(self._before + orjson.dumps(delta) + self._after)

    def _begin_part(self, kind: str) -> None:
        return

    def _begin_call(self, id: str, name: str) -> None:
        holder = "input" if self._kind == "custom" else "arguments"
        kind = "custom" if self._kind == "custom" else "function"
        call = {"id": id, "type": kind, kind: {"name": name, holder: ""}}
        self._calls.append(call)
        self._say({"tool_calls": [{"index": len(self._calls) - 1} | call]})

    def _say_text(self, piece: str, logprobs: list[Any] | None) -> None:
        if logprobs is None:
            self._say({"content": piece})
            return
        if self._choice["logprobs"] is None:
            self._choice["logprobs"] = {"content": [], "refusal": None}
        self._choice["logprobs"]["content"] += logprobs
        if self._streams:
            told = {"content": logprobs, "refusal": None}
            choice = {"index": 0, "delta": {"content": piece}, "logprobs": told, "finish_reason": None}
            self._out.append(encode(orjson.dumps(self._chunk_head() | {"choices": [choice]})))

    def _say_reasoning(self, piece: str) -> None:
        self._say({"reasoning_content": piece})

    def _say_refusal(self, piece: str) -> None:
        self._say({"refusal": piece})

    def _say_arguments(self, piece: str) -> None:
        kind, holder = ("custom", "input") if self._kind == "custom" else ("function", "arguments")
        self._say({"tool_calls": [{"index": len(self._calls) - 1, kind: {holder: piece}}]})

    def _seal(self, kind: str, held: str) -> None:
        if kind == "thinking":
            block = {"type": kind, "thinking": "".join(self._pieces), "signature": held}
        else:
            block = {"type": kind, "data": held}
        self._message.setdefault("thinking_blocks", []).append(block)
        self._say({"thinking_blocks": [block]})

    def _end_part(self, kind: str, said: str) -> None:
        message = self._message
        if kind == "text":
            message["content"] = (message["content"] or "") + said
        elif kind == "refusal":
            message["refusal"] = (message["refusal"] or "") + said
        elif kind == "reasoning":
            if said:
                before = message.get("reasoning_content")
                message["reasoning_content"] = f"{before}\n\n{said}" if before else said
        else:
            called, holder = ("custom", "input") if kind == "custom" else ("function", "arguments")
            self._calls[-1][called][holder] = said

    def _end(self, reason: str, stop_sequence: str | None) -> None:
        message = self._message
        if self._calls:
            message["tool_calls"] = self._calls
        elif message["content"] is None and message["refusal"] is None:
            message["content"] = ""
        if reason in _REASONS:
            self.lose(reason)
        ended = {"finish_reason": _REASONS.get(reason, reason)}
        if stop_sequence is not None:
            # As vLLM tells it.
            ended["stop_reason"] = stop_sequence
        self._choice |= ended
        if not self._streams:
            return
        last = {"index": 0, "delta": {}, "logprobs": None} | ended
        self._out.append(encode(orjson.dumps(self._chunk_head() | {"choices": [last]})))
        if self.chat.include_usage:
            told = {"choices": [], **self._told()}
            self._out.append(encode(orjson.dumps(self._chunk_head() | told)))
        self._out.append(DONE)
