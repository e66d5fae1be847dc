"""An answer of `/v1/responses`: put together from its events, said as a chat completion, and said as events again. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from engines.answers.answer import Assembled
from engines.as_events import pieces
from engines.sse import encode_typed, events

_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
_ENDED = frozenset({"completed", "incomplete"})
_DETAILS = (
    ("input_tokens_details", "prompt_tokens_details"),
    ("output_tokens_details", "completion_tokens_details"),
)


def from_object(body: bytes) -> Assembled | None:
    """A response that came as one JSON object; None if it is not one."""
    try:
        response = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(response, dict) or not isinstance(response.get("output"), list):
        return None
    return _assembled(response, understood=True)


def from_events(body: bytes) -> Assembled | None:
    """A response that came as a stream; None if it held none.

    Its last event holds all of it. A stream that broke off before that is what its deltas said so far, and not `whole`.
    """
    response: dict[str, Any] | None = None
    items: list[Any] = []
    said: list[str] = []
    ended, understood = False, True
    for data in events(body):
        if data == b"[DONE]":
            continue
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            understood = False
            continue
        if not isinstance(event, dict):
            understood = False
            continue
        kind = event.get("type")
        if isinstance(told := event.get("response"), dict) and not ended:
            response, ended = told, kind in _LAST
        elif kind == "response.output_item.done":
            items.append(event.get("item"))
        elif kind == "response.output_text.delta" and isinstance(event.get("delta"), str):
            said.append(event["delta"])
        elif kind == "error" or event.get("error"):
            understood = False
    if response is None:
        return None
    if not response.get("output"):
        response["output"] = items if ended or not said else [_message_of("".join(said))]
    return _assembled(response, understood=understood and ended)


def _message_of(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "status": "in_progress", "content": [part]}


def _assembled(response: dict[str, Any], *, understood: bool) -> Assembled:
    whole = understood and response.get("status") in _ENDED and not response.get("error")
    return Assembled(as_completion(response), whole=whole, own=response)


def as_completion(response: Mapping[str, Any]) -> dict[str, Any]:
    """What the response says, as a chat completion with one choice."""
    message = _message(response)
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(response, message)}
    completion: dict[str, Any] = {
        "id": response.get("id"),
        "object": "chat.completion",
        "created": response.get("created_at"),
        "model": response.get("model"),
        "choices": [choice],
    }
    if isinstance(tier := response.get("service_tier"), str):
        completion["service_tier"] = tier
    if isinstance(used := response.get("usage"), dict):
        completion["usage"] = _usage(used)
    return completion


def only_messages(response: Mapping[str, Any]) -> bool:
    """Whether its output is messages of text and nothing else: no calls, no reasoning, nothing that a tool brought."""
    output = response.get("output")
    return isinstance(output, list) and bool(output) and all(map(_is_message, output))


def _is_message(item: Any) -> bool:
    if not isinstance(item, dict) or item.get("type") != "message":
        return False
    content = item.get("content")
    return isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") in ("output_text", "refusal") for part in content
    )


def _message(response: Mapping[str, Any]) -> dict[str, Any]:
    said: list[str] = []
    refused: list[str] = []
    calls: list[dict[str, Any]] = []
    for item in response.get("output") or ():
        if not isinstance(item, dict):
            continue
        if item.get("type") == "message":
            for part in item.get("content") or ():
                if isinstance(part, dict) and isinstance(part.get("text"), str):
                    said.append(part["text"])
                elif isinstance(part, dict) and isinstance(part.get("refusal"), str):
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
        details = response.get("incomplete_details")
        why = details.get("reason") if isinstance(details, dict) else None
        return "content_filter" if why == "content_filter" else "length"
    return "error" if status in ("failed", "cancelled") else None


def _usage(used: Mapping[str, Any]) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "prompt_tokens": used.get("input_tokens"),
        "completion_tokens": used.get("output_tokens"),
        "total_tokens": used.get("total_tokens"),
    }
    return usage | {ours: used[theirs] for theirs, ours in _DETAILS if isinstance(used.get(theirs), dict)}


def as_events(response: Mapping[str, Any], *, after: int = -1) -> bytes:
    """The whole response as the stream that an engine would have sent, numbered from 0 without gaps.

    `after`: only the events with a greater number.
    """
    numbered = (
        {"type": event.pop("type"), "sequence_number": number} | event
        for number, event in enumerate(_events(response))
    )
    return b"".join(encode_typed(event) for event in numbered if event["sequence_number"] > after)


def _events(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**response, "status": "in_progress", "output": []}
    for name, empty in (("usage", None), ("completed_at", None), ("incomplete_details", None)):
        if name in begun:
            begun[name] = empty
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response.get("output") or ()):
        is_message = _is_message(item)
        added = {**item, "status": "in_progress", "content": []} if is_message else item
        yield {"type": "response.output_item.added", "output_index": index, "item": added}
        if is_message:
            for at, part in enumerate(item["content"]):
                where = {"item_id": item.get("id", ""), "output_index": index, "content_index": at}
                yield from _part_events(part, where)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response.get('status')}", "response": dict(response)}


def _part_events(part: Mapping[str, Any], where: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    refuses = part.get("type") == "refusal"
    name, member = ("refusal", "refusal") if refuses else ("output_text", "text")
    text, logprobs = part.get(member) or "", part.get("logprobs") or []
    empty = {**part, member: ""}
    for listed in ("annotations", "logprobs"):
        if listed in empty:
            empty[listed] = []
    yield {"type": "response.content_part.added", **where, "part": empty}
    for i, piece in enumerate(pieces(text)):
        told = {} if refuses else {"logprobs": logprobs if i == 0 else []}
        yield {"type": f"response.{name}.delta", **where, "delta": piece, **told}
    for i, annotation in enumerate(part.get("annotations") or ()):
        kind = "response.output_text.annotation.added"
        yield {"type": kind, **where, "annotation_index": i, "annotation": annotation}
    told = {} if refuses else {"logprobs": logprobs}
    yield {"type": f"response.{name}.done", **where, member: text, **told}
    yield {"type": "response.content_part.done", **where, "part": dict(part)}
