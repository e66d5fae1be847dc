"""Says answers of `/v1/responses` that are remembered, as events. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engines.as_events import pieces
from engines.loose_json import listed, member
from engines.sse import encode_typed


def only_messages(response: Mapping[str, Any]) -> bool:
    """Tells whether its output is messages of text and nothing else: no calls, no reasoning, nothing that a tool brought."""
    output = listed(response.get("output"))
    return bool(output) and all(map(_is_message, output))


def _is_message(item: Any) -> bool:
    content = member(item, "content")
    if member(item, "type") != "message" or not isinstance(content, list):
        return False
    return all(member(part, "type") in ("output_text", "refusal") for part in content)


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
