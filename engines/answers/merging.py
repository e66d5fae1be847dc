"""Merges what a stream says piece by piece into one object, by rules that hold for members nobody here knows, too.

A null says nothing. Texts that are known to come in pieces join; lists are appended; objects merge member by member; of
anything else the last value stands. What cannot be merged is named, and then the answer is not whole: better not to
remember than to replay less, or other than, was said. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_JOINED = frozenset({"content", "refusal", "reasoning_content", "reasoning", "text", "arguments", "input"})
"""Members of a message and of a tool call whose texts come in pieces."""
_JOINED_IN = {"audio": frozenset({"data", "transcript"})}
_REPEATED = frozenset({"role", "id", "type", "name", "object", "index"})
"""Members of a delta that name what it belongs to; the last that is not empty stands."""


def merge_member(known: dict[str, Any], name: str, value: Any, unmerged: list[str]) -> None:
    """Merge a member of an answer's top level or of a choice: of scalars the last stands."""
    before = known.get(name)
    if value is None or before is None:
        known[name] = value if before is None else before
    elif isinstance(before, list) and isinstance(value, list):
        known[name] = [*before, *value]
    elif isinstance(before, dict) and isinstance(value, dict):
        inside = dict(before)
        for inner, inner_value in value.items():
            merge_member(inside, inner, inner_value, unmerged)
        known[name] = inside
    elif isinstance(before, list | dict) or isinstance(value, list | dict):
        unmerged.append(name)
    else:
        known[name] = value


def merge_repeated(known: dict[str, Any], name: str, value: Any, unmerged: list[str]) -> None:
    """Merge a member of the top level. A list that grows from chunk to chunk (citations) is not doubled."""
    before = known.get(name)
    if isinstance(before, list) and isinstance(value, list) and before == value[: len(before)]:
        known[name] = value
    else:
        merge_member(known, name, value, unmerged)


def merge_delta(message: dict[str, Any], delta: Mapping[str, Any], unmerged: list[str]) -> None:
    """Merge a choice's delta into its message."""
    for name, value in delta.items():
        if name == "tool_calls" and isinstance(value, list):
            merge_tool_calls(message, value, unmerged)
        else:
            _merge_said(message, name, value, unmerged, _JOINED)


def _merge_said(
    known: dict[str, Any], name: str, value: Any, unmerged: list[str], joined: frozenset[str]
) -> None:
    before = known.get(name)
    if value is None or before is None:
        known[name] = value if before is None else before
    elif name in joined:
        known[name] = _joined(before, value, name, unmerged)
    elif name in _REPEATED:
        known[name] = value or before
    elif isinstance(before, dict) and isinstance(value, dict):
        inside = dict(before)
        for inner, inner_value in value.items():
            _merge_said(inside, inner, inner_value, unmerged, _JOINED_IN.get(name, _JOINED))
        known[name] = inside
    elif isinstance(before, list) and isinstance(value, list):
        known[name] = [*before, *value]
    elif before != value:
        # A text in pieces, or another value in its place: nobody here can tell.
        unmerged.append(name)


def _joined(before: Any, value: Any, name: str, unmerged: list[str]) -> Any:
    """A text and what follows it; where one of them is a list of parts (thinking, images), a list of parts."""
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    if not (isinstance(before, str | list) and isinstance(value, str | list)):
        if before != value:
            unmerged.append(name)
        return value
    parts = list(before) if isinstance(before, list) else _part(before)
    last = parts[-1] if parts else None
    if isinstance(value, list):
        return [*parts, *value]
    if isinstance(last, dict) and last.get("type") == "text" and isinstance(last.get("text"), str):
        return [*parts[:-1], last | {"text": last["text"] + value}]
    return [*parts, *_part(value)]


def _part(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []


def merge_tool_calls(message: dict[str, Any], pieces: list[Any], unmerged: list[str]) -> None:
    """Merge pieces of tool calls. A new id begins a new call, whatever index it is said at."""
    calls = message.get("tool_calls")
    calls = message["tool_calls"] = list(calls) if isinstance(calls, list) else []
    for piece in pieces:
        if not isinstance(piece, dict):
            unmerged.append("tool_calls")
            continue
        place = _place(calls, piece)
        if place is None:
            calls.append({})
            place = len(calls) - 1
        call = calls[place]
        for name, value in piece.items():
            if name == "function" and isinstance(value, dict):
                _merge_function(call.setdefault("function", {}), value, unmerged)
            else:
                _merge_said(call, name, value, unmerged, frozenset())


def _place(calls: list[dict[str, Any]], piece: Mapping[str, Any]) -> int | None:
    """The place of the call that a piece goes on with; None where it begins one."""
    index, id = piece.get("index"), piece.get("id")
    same = [place for place, call in enumerate(calls) if index is None or call.get("index") == index]
    if not same:
        return None
    begun = calls[same[-1]].get("id")
    return None if id and begun and id != begun else same[-1]


def _merge_function(known: dict[str, Any], piece: Mapping[str, Any], unmerged: list[str]) -> None:
    for name, value in piece.items():
        before = known.get(name)
        if name == "name" and isinstance(before, str) and isinstance(value, str) and value != before:
            known[name] = before + value
        else:
            _merge_said(known, name, value, unmerged, _JOINED)
