"""Says answers of `/v1/responses` that no engine sends: remembered ones as events, and those that are made here. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engines.as_events import pieces
from engines.codecs.said import Said
from engines.loose_json import listed, member
from engines.sse import encode_typed

_TOLD: Mapping[str, Any] = {
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
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "truncation": "disabled",
    "background": False,
    "service_tier": "default",
}
"""What a response repeats of its request, and what it says if that does not say it. With what `as_response` adds it is all
that the Open Responses schema of a response requires."""


def only_messages(response: Mapping[str, Any]) -> bool:
    """Tells whether its output is messages of text and nothing else: no calls, no reasoning, nothing that a tool brought."""
    output = listed(response.get("output"))
    return bool(output) and all(map(_is_message, output))


def _is_message(item: Any) -> bool:
    content = member(item, "content")
    if member(item, "type") != "message" or not isinstance(content, list):
        return False
    return all(member(part, "type") in ("output_text", "refusal") for part in content)


def as_response(said: Said, asked: Mapping[str, Any]) -> dict[str, Any]:
    """An answer that was made here to a body with these fields, as a response."""
    short, usage = said.finish_reason == "length", said.usage
    part = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
    text = {
        "id": f"msg_{said.id}",
        "type": "message",
        "role": "assistant",
        "status": "incomplete" if short else "completed",
        "content": [part],
    }
    calls = [
        {
            "id": f"fc_{said.id}_{place}",
            "type": "function_call",
            "status": "completed",
            "call_id": call["id"],
            **call["function"],
        }
        for place, call in enumerate(said.calls)
    ]
    told = {name: default if (given := asked.get(name)) is None else given for name, default in _TOLD.items()}
    return told | {
        "id": f"resp_{said.id}",
        "object": "response",
        "created_at": said.created_s,
        "completed_at": None if short else said.created_s,
        "status": "incomplete" if short else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if short else None,
        "model": said.model,
        "output": [*([text] if said.text or not said.calls else []), *calls],
        "text": {"format": {"type": "text"}} | (asked["text"] if isinstance(asked.get("text"), dict) else {}),
        "usage": {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.tokens,
        },
    }


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
    begun |= dict.fromkeys(begun.keys() & {"usage", "completed_at", "incomplete_details"})
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
    name, holder = ("refusal", "refusal") if refuses else ("output_text", "text")
    text, logprobs = part.get(holder) or "", part.get("logprobs") or []
    empty = {**part, holder: ""}
    for name_of_list in part.keys() & {"annotations", "logprobs"}:
        empty[name_of_list] = []
    yield {"type": "response.content_part.added", **where, "part": empty}
    for i, piece in enumerate(pieces(text)):
        told = {} if refuses else {"logprobs": logprobs if i == 0 else []}
        yield {"type": f"response.{name}.delta", **where, "delta": piece, **told}
    for i, annotation in enumerate(part.get("annotations") or ()):
        kind = "response.output_text.annotation.added"
        yield {"type": kind, **where, "annotation_index": i, "annotation": annotation}
    told = {} if refuses else {"logprobs": logprobs}
    yield {"type": f"response.{name}.done", **where, holder: text, **told}
    yield {"type": "response.content_part.done", **where, "part": dict(part)}
