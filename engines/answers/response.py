"""Merges an answer of `/v1/responses`, and says it as a chat completion. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engines.answers.answer import Assembled
from engines.answers.heard import Heard
from engines.answers.usage import as_chat_tells
from engines.loose_json import member, objects

_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
_ENDED = frozenset({"completed", "incomplete"})


class Response:
    """See engines.answers.answer.Merged. The last event holds all of it; of a stream that broke off before there is what
    its deltas said."""

    def __init__(self) -> None:
        self.understood = True
        self._response: dict[str, Any] | None = None
        self._ended = False
        self._items: list[Any] = []
        self._said: list[str] = []

    def hear(self, event: dict[str, Any]) -> None:
        """See Merged."""
        kind = event.get("type")
        if isinstance(told := event.get("response"), dict) and not self._ended:
            self._response, self._ended = told, kind in _LAST
        elif kind == "response.output_item.done":
            self._items.append(event.get("item"))
        elif kind == "response.output_text.delta" and isinstance(event.get("delta"), str):
            self._said.append(event["delta"])

    def hear_whole(self, answer: dict[str, Any]) -> None:
        """See Merged."""
        self._response = answer if isinstance(answer.get("output"), list) else None
        self._ended = True

    def assembled(self, heard: Heard) -> Assembled | None:
        """See Merged."""
        response = self._response
        if response is None:
            return None
        if not response.get("output"):
            said = "".join(self._said)
            response = response | {"output": self._items if self._ended or not said else [_message_of(said)]}
        ended_well = self._ended and response.get("status") in _ENDED and not response.get("error")
        completion = as_completion(response, heard)
        return Assembled(completion, self.understood and ended_well, own=response, heard=heard)


def _message_of(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "status": "in_progress", "content": [part]}


def as_completion(response: Mapping[str, Any], heard: Heard) -> dict[str, Any]:
    """What the response says, as a chat completion with one choice."""
    message = _message(response)
    return {
        "id": response.get("id"),
        "object": "chat.completion",
        "created": response.get("created_at"),
        "model": response.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": _finish_reason(response, message)}],
    } | as_chat_tells(heard.told)


def _message(response: Mapping[str, Any]) -> dict[str, Any]:
    said: list[str] = []
    refused: list[str] = []
    calls: list[dict[str, Any]] = []
    for item in objects(response.get("output")):
        if item.get("type") == "message":
            for part in objects(item.get("content")):
                if isinstance(part.get("text"), str):
                    said.append(part["text"])
                elif isinstance(part.get("refusal"), str):
                    refused.append(part["refusal"])
        elif item.get("type") in ("function_call", "custom_tool_call"):
            called = {"name": item.get("name"), "arguments": item.get("arguments", item.get("input"))}
            calls.append({"id": item.get("call_id"), "type": "function", "function": called})
    message: dict[str, Any] = {"role": "assistant", "content": "".join(said) if said else None}
    if refused:
        message["refusal"] = "".join(refused)
    if calls:
        message["tool_calls"] = calls
    return message


def _finish_reason(response: Mapping[str, Any], message: Mapping[str, Any]) -> str | None:
    status = response.get("status")
    if status == "completed":
        return "tool_calls" if message.get("tool_calls") else "stop"
    if status == "incomplete":
        why = member(response.get("incomplete_details"), "reason")
        return "content_filter" if why == "content_filter" else "length"
    return "error" if status in ("failed", "cancelled") else None
