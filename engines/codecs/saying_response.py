"""Says an answer as a response of `/v1/responses`, or as its events, which are numbered from 0 without gaps. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from engines.answers.usage import beside_counts
from engines.chat import ChatRequest, Usage
from engines.codecs.custom_tools import namespaced
from engines.codecs.parts import Saying
from engines.codecs.thinking import sealed
from engines.sse import encode_typed

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why a response is incomplete, by the word that a chat completion has for it."""
_ECHOED: Mapping[str, Any] = {
    "instructions": None,
    "previous_response_id": None,
    "reasoning": None,
    "user": None,
    "safety_identifier": None,
    "prompt_cache_key": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "metadata": {},
    "store": True,
    "text": {"format": {"type": "text"}},
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "truncation": "disabled",
    "background": False,
    "service_tier": "default",
}
"""What a response repeats of its request, and what it says where that has nothing. With `created_at`, `completed_at` and the
like it is all that the Open Responses schema of a response requires."""
_HOLDERS = {"text": "text", "refusal": "refusal", "call": "arguments", "custom": "input"}
_NAMES = {"text": "output_text", "refusal": "refusal"}


class SayingResponse(Saying):
    """See Saying. Each part is an item of its output; reasoning is told as a summary, which is what clients show."""

    def __init__(self, chat: ChatRequest, *, streams: bool) -> None:
        super().__init__(chat, streams=streams)
        self._response: dict[str, Any] = {}
        self._items: list[dict[str, Any]] = []
        self._id = self._item_id = ""
        self._place = 0
        """Of the item that is being said."""
        self._logprobs: list[Any] = []
        self._namespaced = namespaced(chat)

    def whole(self) -> dict[str, Any]:
        """See Saying."""
        return self._response

    def _begin(self, id: str, model: str, created_s: int) -> None:
        asked = self.chat.own_fields
        echoed = {
            name: otherwise if asked.get(name) is None else asked[name] for name, otherwise in _ECHOED.items()
        }
        self._id = id
        self._response = {
            "id": f"resp_{id}",
            "object": "response",
            "created_at": created_s,
            "completed_at": None,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": model,
            "output": [],
            **echoed,
            "usage": None,
        }
        self._say("response.created", response=self._response)
        self._say("response.in_progress", response=self._response)

    def _say(self, kind: str, **members: Any) -> None:
        if self._streams:
            number = self.number
            self.number = number + 1
            self._out.append(encode_typed({"type": kind, "sequence_number": number, **members}))

    def _begin_item(self, prefix: str, item: dict[str, Any]) -> None:
        self._place = len(self._items)
        id = self._item_id = f"{prefix}_{self._id}_{self._place}"
        self._items.append({"id": id, **item})
        self._say("response.output_item.added", output_index=self._place, item=self._items[-1])

    def _begin_part(self, kind: str) -> None:
        if kind == "reasoning":
            self._begin_item("rs", {"type": "reasoning", "status": "in_progress", "summary": []})
            return
        self._logprobs = []
        message = {"type": "message", "role": "assistant", "status": "in_progress", "content": []}
        self._begin_item("msg", message)
        where = {"item_id": self._item_id, "output_index": self._place, "content_index": 0}
        self._say("response.content_part.added", **where, part=self._part(kind, ""))

    def _part(self, kind: str, said: str) -> dict[str, Any]:
        if kind == "refusal":
            return {"type": "refusal", "refusal": said}
        return {"type": "output_text", "text": said, "annotations": [], "logprobs": self._logprobs}

    def _begin_call(self, id: str, name: str) -> None:
        custom = self._kind == "custom"
        kind, prefix = ("custom_tool_call", "ctc") if custom else ("function_call", "fc")
        holder = _HOLDERS[self._kind]
        namespace, own = self._namespaced.get(name, ("", name))
        spaced = {"namespace": namespace} if namespace else {}
        call = {"call_id": id, "name": own, holder: "", **spaced}
        self._begin_item(prefix, {"type": kind, "status": "in_progress", **call})

    def _say_text(self, piece: str, logprobs: list[Any] | None) -> None:
        if logprobs:
            self._logprobs += logprobs
        self._say(
            "response.output_text.delta",
            item_id=self._item_id,
            output_index=self._place,
            content_index=0,
            delta=piece,
            logprobs=logprobs or [],
        )

    def _say_refusal(self, piece: str) -> None:
        where = {"item_id": self._item_id, "output_index": self._place, "content_index": 0}
        self._say("response.refusal.delta", **where, delta=piece)

    def _say_reasoning(self, piece: str) -> None:
        where = {"item_id": self._item_id, "output_index": self._place, "summary_index": 0}
        if len(self._pieces) == 1:
            part = {"type": "summary_text", "text": ""}
            self._say("response.reasoning_summary_part.added", **where, part=part)
        self._say("response.reasoning_summary_text.delta", **where, delta=piece)

    def _say_arguments(self, piece: str) -> None:
        kind = "custom_tool_call_input" if self._kind == "custom" else "function_call_arguments"
        self._say(f"response.{kind}.delta", item_id=self._item_id, output_index=self._place, delta=piece)

    def _seal(self, kind: str, held: str) -> None:
        block = {"type": kind, "signature": held, "data": held}
        self._items[-1]["encrypted_content"] = sealed(block)

    def _end_part(self, kind: str, said: str) -> None:
        item, place = self._items[-1], self._place
        where = {"item_id": self._item_id, "output_index": place}
        # OpenAI's reasoning says no status.
        item["status"] = "incomplete" if self._reason in _INCOMPLETE else "completed"
        if kind == "reasoning":
            del item["status"]
            if said:
                part = {"type": "summary_text", "text": said}
                item["summary"] = [part]
                self._say("response.reasoning_summary_text.done", **where, summary_index=0, text=said)
                self._say("response.reasoning_summary_part.done", **where, summary_index=0, part=part)
        elif kind in _NAMES:
            part = self._part(kind, said)
            item["content"] = [part]
            told = {"logprobs": self._logprobs} if kind == "text" else {}
            done = {_HOLDERS[kind]: said, **told}
            self._say(f"response.{_NAMES[kind]}.done", **where, content_index=0, **done)
            self._say("response.content_part.done", **where, content_index=0, part=part)
        else:
            name = "custom_tool_call_input" if kind == "custom" else "function_call_arguments"
            item[_HOLDERS[kind]] = said
            named = {} if kind == "custom" else {"name": item["name"]}
            self._say(f"response.{name}.done", **where, **named, **{_HOLDERS[kind]: said})
        self._say("response.output_item.done", output_index=place, item=item)

    def _end(self, reason: str, stop_sequence: str | None) -> None:
        if stop_sequence is not None:
            self.lose("stop_sequence")
        if reason == "pause_turn":
            self.lose(reason)
        why = _INCOMPLETE.get(reason)
        status = "completed" if why is None else "incomplete"
        self._response |= {
            "status": status,
            "incomplete_details": None if why is None else {"reason": why},
            "output": self._items,
            "usage": response_usage(self.usage, self.reasoning_tokens),
        }
        if self.usage.service_tier:
            self._response["service_tier"] = self.usage.service_tier
        if why is None:
            self._response["completed_at"] = max(int(time.time()), self._response["created_at"])
        self._say(f"response.{status}", response=self._response)


def response_usage(usage: Usage, reasoning_tokens: int) -> dict[str, Any]:
    """The member `usage` of responses."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": usage.tokens,
        **beside_counts(usage),
    }
