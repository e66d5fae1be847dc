"""What a client has in hand at the end of an answer, streamed or not: read as SDKs do, by nothing of the product's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_TEXTS = frozenset(
    {"content", "refusal", "reasoning", "reasoning_content", "arguments", "transcript", "data"}
)
_HEAD = frozenset({"id", "object", "created", "model"})
_PADDING = frozenset({"obfuscation", "p"})


def merged(body: bytes, api: str) -> dict[str, Any]:
    """The whole answer in a stream's bytes."""
    events = list(data_of(body))
    return _message(events) if api == "messages" else _choices(events)


def data_of(body: bytes) -> Iterator[dict[str, Any]]:
    """The data of each event but `[DONE]`."""
    for line in body.decode().split("\n"):
        if line.startswith("data:") and (data := line[5:].strip()) != "[DONE]":
            yield json.loads(data)


def missing(due: Any, got: Any, at: str = "") -> list[str]:
    """What of `due` is not in `got`, each with its place. Null says nothing; two texts in a row are one."""
    if isinstance(due, dict) and isinstance(got, dict):
        names = [name for name, value in due.items() if value is not None and name not in _PADDING]
        return [one for name in names for one in missing(due[name], got.get(name), f"{at}.{name}")]
    if isinstance(due, list) and isinstance(got, list):
        due, got = _together(due), _together(got)
        if len(due) != len(got):
            return [f"{at}: {got!r} for {due!r}"]
        return [
            each
            for n, (one, other) in enumerate(zip(due, got, strict=True))
            for each in missing(one, other, f"{at}[{n}]")
        ]
    return [] if due == got else [f"{at}: {got!r} for {due!r}"]


def _together(parts: list[Any]) -> list[Any]:
    """Parts of a content, adjacent ones of one kind as one."""
    found: list[Any] = []
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        before = (
            found[-1] if found and isinstance(found[-1], dict) and found[-1].get("type") == kind else None
        )
        if before is not None and kind in ("text", "thinking") and set(part) == set(before) == {"type", kind}:
            found[-1] = {"type": kind, kind: _added(before[kind], part[kind])}
        elif isinstance(part, dict) and isinstance(part.get("thinking"), list):
            found.append(part | {"thinking": _together(part["thinking"])})
        else:
            found.append(part)
    return found


def _added(before: Any, more: Any) -> Any:
    return _together([*before, *more]) if isinstance(before, list) else before + more


def _choices(events: list[dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for event in events:
        for name, value in event.items():
            if name == "choices":
                continue
            if isinstance(value, list) and isinstance(answer.get(name), list):
                told = answer[name]
                answer[name] = value if value[: len(told)] == told else [*told, *value]
            elif value is not None and (value or name not in _HEAD):
                answer[name] = value
        for piece in event.get("choices") or ():
            choice = choices.setdefault(piece.get("index", 0), {"index": piece.get("index", 0)})
            for name, value in piece.items():
                if name == "delta":
                    choice.setdefault("message", {})
                    _add(choice["message"], value or {})
                elif name == "text" and "delta" not in piece:
                    choice["text"] = choice.get("text", "") + value
                elif name not in ("message", "text"):
                    # Beside a delta they say the same once more.
                    _add(choice, {name: value})
    return answer | {"choices": [choices[index] for index in sorted(choices)]}


def _add(known: dict[str, Any], said: dict[str, Any]) -> None:
    for name, value in said.items():
        before = known.get(name)
        if value is None:
            continue
        if name == "tool_calls":
            _add_calls(known.setdefault("tool_calls", []), value)
        elif isinstance(before, dict) and isinstance(value, dict):
            _add(before, value)
        elif isinstance(before, list) or isinstance(value, list):
            known[name] = [*_parts(before), *_parts(value)]
        elif isinstance(before, str) and name in _TEXTS:
            known[name] = before + value
        else:
            known[name] = dict(value) if isinstance(value, dict) else value


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or ())


def _add_calls(calls: list[dict[str, Any]], pieces: list[dict[str, Any]]) -> None:
    for piece in pieces:
        same = [call for call in calls if call.get("index") == piece.get("index")]
        if not same or (piece.get("id") and piece["id"] != same[-1].get("id")):
            calls.append({**piece, "function": dict(piece.get("function") or {})})
        else:
            _add(same[-1], piece)


def _message(events: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"] | {"content": []}
            case "content_block_start":
                message["content"].append(dict(event["content_block"]))
            case "content_block_delta":
                _add_block(message["content"][event["index"]], event["delta"])
            case "message_delta":
                message |= event["delta"]
                message |= {n: v for n, v in event.items() if n not in ("type", "delta", "usage")}
                message["usage"] = message["usage"] | event["usage"]
    for block in message["content"]:
        if isinstance(written := block.pop("written", None), str):
            block["input"] = json.loads(written)
    return message


def _add_block(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        case "input_json_delta":
            block["written"] = block.get("written", "") + delta["partial_json"]
