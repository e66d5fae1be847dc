"""Bodies of `/v1/responses` and the neutral request, both ways. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engines.codecs.neutral import (
    FAILED,
    Limits,
    Neutral,
    as_parts,
    keeps_thoughts,
    lose_file_id,
    lose_members,
    lose_thought,
    openai_fields,
    read_fields,
    spread_file,
    write_fields,
)
from engines.codecs.response_request import kind_of
from engines.codecs.thinking import unsealed
from engines.loose_json import listed, member, objects, text

_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""Parts of text, and the member that holds it."""
_PART = frozenset({"type", "prompt_cache_breakpoint", "text", "refusal", "annotations", "logprobs"})
_IMAGE = frozenset({"type", "prompt_cache_breakpoint", "image_url", "file_id", "detail"})
_FILE_NAMES = ("file_data", "file_url", "file_id", "filename")
_FILE = frozenset({"type", "prompt_cache_breakpoint", "detail", *_FILE_NAMES})
_ITEM = frozenset({"type", "id", "status"})
"""An item's own id and status say nothing to a model; `phase` labels a message for those who show it."""
_MESSAGE = _ITEM | {"role", "content", "phase"}
_CALLS: Mapping[str, tuple[str, str]] = {
    "function_call": ("function", "arguments"),
    "custom_tool_call": ("custom", "input"),
}
"""Items that are calls: the call's type in a chat, and the name of what it is called with."""
_CALL = _ITEM | {"call_id", "name", "namespace", "arguments", "input"}
_NAMESPACE = frozenset({"type", "name", "description", "tools"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
_OUTPUT = _ITEM | {"call_id", "output", "name"}
_LOGPROBS = "message.output_text.logprobs"


def read(own: Mapping[str, Any], limits: Limits) -> Neutral:
    """A response's body as a neutral request."""
    fields = read_fields(own, limits)
    if _LOGPROBS in listed(fields.get("include")):
        fields["logprobs"] = True
    if "response_format" in fields:
        fields["response_format"] = _read_form(fields["response_format"])
    described = listed(fields.pop("tools", None))
    if tools := [tool for each in described for tool in _read_tools(each, limits)]:
        fields["tools"] = tools
    if "tool_choice" in fields:
        fields |= _read_choice(fields.pop("tool_choice"), limits)
    messages: list[dict[str, Any]] = []
    if own.get("instructions"):
        messages.append({"role": "system", "content": own["instructions"]})
    given = own.get("input")
    if isinstance(given, str):
        messages.append({"role": "user", "content": given})
    for item in listed(given):
        _read_item(item, messages, limits)
    return Neutral(fields, messages)


def write(neutral: Neutral, limits: Limits) -> dict[str, Any]:
    """The body's fields that say a neutral request; nothing of it is to be stored."""
    fields = openai_fields(neutral)
    if fields.pop("logprobs", None):
        asked = listed(fields.get("include"))
        fields["include"] = asked if _LOGPROBS in asked else [*asked, _LOGPROBS]
    if "response_format" in fields:
        fields["response_format"] = _write_form(fields["response_format"])
    if "tools" in fields:
        fields["tools"] = _write_tools(fields["tools"])
    if "tool_choice" in fields:
        fields["tool_choice"] = _flat(fields["tool_choice"])
    fields["store_response"] = False
    written, messages = write_fields(fields, limits), neutral.messages
    if messages and messages[0]["role"] == "system" and isinstance(messages[0]["content"], str):
        written["instructions"] = messages[0]["content"]
        messages = messages[1:]
    return {**written, "input": list(_items(messages, limits))}


def _read_tools(tool: Any, limits: Limits) -> Iterator[dict[str, Any]]:
    """A tool, or those of a namespace, the first of which has its description."""
    kind = member(tool, "type")
    if kind in ("function", "custom"):
        yield _read_tool(tool)
    elif kind == "namespace":
        lose_members(tool, _NAMESPACE, "tools", limits)
        told = {name: tool[name] for name in ("name", "description") if name in tool}
        for inner in listed(tool.get("tools")):
            for read in _read_tools(inner, limits):
                yield read | {"namespace": told}
                told = {"name": tool.get("name")}
    else:
        limits.lose(str(kind), "tools")


def _write_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    for tool in tools:
        namespace = tool.get("namespace")
        if namespace is None:
            written.append(_write_tool(tool))
            continue
        last = written[-1] if written else {}
        if last.get("type") != "namespace" or last["name"] != namespace.get("name"):
            written.append({"type": "namespace", **namespace, "tools": []})
        written[-1]["tools"].append(_write_tool(tool))
    return written


def _read_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    described = {name: value for name, value in tool.items() if name != "type"}
    form = described.get("format")
    if isinstance(form, dict) and form.get("type") == "grammar":
        grammar = {name: value for name, value in form.items() if name != "type"}
        described["format"] = {"type": "grammar", "grammar": grammar}
    return {"type": tool["type"], tool["type"]: described}


def _write_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    kind = tool["type"]
    described = tool.get(kind) or {}
    form = described.get("format")
    if isinstance(form, dict) and form.get("type") == "grammar":
        described = described | {"format": {"type": "grammar", **(form.get("grammar") or {})}}
    # This API wants both; a function of a chat is not strict where it does not say so.
    needed = {"parameters": None, "strict": False} if kind == "function" else {}
    return {"type": kind, **needed, **described}


def _read_choice(choice: Any, limits: Limits) -> dict[str, Any]:
    kind = member(choice, "type")
    if kind in (None, "function", "custom", "allowed_tools"):
        return {"tool_choice": _nested(choice)}
    limits.lose("tool_choice", "tool_choice")
    return {}


def _spaced(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"namespace": value["namespace"]} if value.get("namespace") else {}


def _nested(choice: Any) -> Any:
    """A choice of tools as a chat completion says it."""
    kind = member(choice, "type")
    if kind in ("function", "custom"):
        return {"type": kind, kind: {"name": choice.get("name")}, **_spaced(choice)}
    if kind == "allowed_tools":
        tools = list(map(_nested, listed(choice.get("tools"))))
        return {"type": kind, kind: {"mode": choice.get("mode"), "tools": tools}}
    return choice


def _flat(choice: Any) -> Any:
    """A choice of tools as this API says it."""
    kind = str(member(choice, "type"))
    inner = member(choice, kind)
    if not isinstance(inner, dict):
        return choice
    listing = {"tools": list(map(_flat, listed(inner.get("tools"))))} if kind == "allowed_tools" else {}
    return {"type": kind, **inner, **listing, **_spaced(choice)}


def _read_form(form: Any) -> Any:
    if member(form, "type") != "json_schema":
        return form
    return {"type": "json_schema", "json_schema": {name: form[name] for name in form if name != "type"}}


def _write_form(form: Any) -> Any:
    return {"type": "json_schema", **form["json_schema"]} if member(form, "type") == "json_schema" else form


def _read_item(item: Mapping[str, Any], messages: list[dict[str, Any]], limits: Limits) -> None:
    """Add an item to the messages: what the assistant thinks, says and calls in one turn is one message."""
    kind = kind_of(item)
    if kind == "message":
        lose_members(item, _MESSAGE, "input", limits)
        role, content = item.get("role") or "user", _content(item.get("content"), limits)
        turn = _turn(messages) if role == "assistant" else None
        if turn is None or turn["content"] is None:
            turn = turn or _added(messages, role)
            turn["content"] = content
        else:
            turn["content"] = [*as_parts(turn["content"]), *as_parts(content)]
    elif kind in _CALLS:
        lose_members(item, _CALL, "input", limits)
        called, holder = _CALLS[kind]
        use = {"name": item.get("name"), holder: item.get(holder)}
        call = {"id": item.get("call_id"), "type": called, called: use, **_spaced(item)}
        _turn(messages).setdefault("tool_calls", []).append(call)
    elif kind in _OUTPUTS:
        lose_members(item, _OUTPUT, "input", limits)
        id = item.get("call_id")
        result = {"role": "tool", "tool_call_id": id, "content": _content(item.get("output"), limits)}
        messages.insert(_after_call(messages, id), result)
    elif kind == "reasoning":
        turn = _turn(messages)
        turn["content"] = [*as_parts(turn["content"]), _read_thought(item)]
    else:
        limits.lose(kind, "input")


def _added(messages: list[dict[str, Any]], role: str) -> dict[str, Any]:
    messages.append({"role": role, "content": None})
    return messages[-1]


def _turn(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The assistant's message that is being read; a new one after any other."""
    if messages and messages[-1]["role"] == "assistant":
        return messages[-1]
    return _added(messages, "assistant")


def _after_call(messages: Sequence[Mapping[str, Any]], id: Any) -> int:
    """Where the result of a call belongs: behind the call, before what the user said meanwhile."""
    end = len(messages)
    while end and messages[end - 1]["role"] not in ("assistant", "tool"):
        end -= 1
    before = messages[end - 1] if end else {}
    called = before.get("tool_calls") or ()
    known = before.get("role") == "tool" or any(call["id"] == id for call in called)
    return end if known else len(messages)


def _read_thought(item: Mapping[str, Any]) -> dict[str, Any]:
    parts = objects(item.get("content")) or objects(item.get("summary"))
    thought = "\n\n".join(text(part.get("text")) for part in parts)
    return (unsealed(item, thought) or {"type": "thinking", "thinking": thought}) | {"item": item}


def _content(content: Any, limits: Limits) -> Any:
    if not isinstance(content, list):
        return content
    return [read for part in content if (read := _read_part(part, limits)) is not None]


def _read_part(part: Any, limits: Limits) -> dict[str, Any] | None:
    kind = str(member(part, "type"))
    if kind in _TEXTS:
        lose_members(part, _PART, "input", limits)
        return {"type": "text", "text": part.get(_TEXTS[kind])}
    if kind == "input_file":
        lose_members(part, _FILE, "input", limits)
        return {"type": "file", "file": {name: part[name] for name in _FILE_NAMES if part.get(name)}}
    if kind != "input_image":
        limits.lose(kind, "input")
        return None
    lose_members(part, _IMAGE, "input", limits)
    if not part.get("image_url"):
        limits.lose("file_id", "input")
        return None
    detail = part.get("detail")
    detailed = {"detail": detail} if detail and detail != "auto" else {}
    return {"type": "image_url", "image_url": {"url": part["image_url"], **detailed}}


def _items(messages: Sequence[Mapping[str, Any]], limits: Limits) -> Iterator[dict[str, Any]]:
    custom: set[Any] = set()
    for place, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == "tool":
            id = message.get("tool_call_id")
            kind = "custom_tool_call_output" if id in custom else "function_call_output"
            said = [FAILED, *as_parts(content)] if message.get("is_error") else content
            yield {"type": kind, "call_id": id, "output": _written(said, limits) or ""}
        elif role == "assistant":
            yield from _assistant(place, content, limits)
            for call in message.get("tool_calls") or ():
                if call.get("type") == "custom":
                    custom.add(call.get("id"))
                yield _call(call)
        else:
            yield {"type": "message", "role": role, "content": _written(content, limits) or ""}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    kind = "custom_tool_call" if call.get("type") == "custom" else "function_call"
    called, holder = _CALLS[kind]
    use = call.get(called) or {}
    told = {"name": use.get("name"), holder: use.get(holder), **_spaced(call)}
    return {"type": kind, "call_id": call.get("id"), **told}


def _assistant(place: int, content: Any, limits: Limits) -> Iterator[dict[str, Any]]:
    for number, part in enumerate(as_parts(content)):
        if part["type"] == "text":
            yield {"type": "message", "role": "assistant", "content": part["text"]}
        elif part["type"] in ("thinking", "redacted_thinking"):
            yield from _thought(f"rs_{place}_{number}", part, limits)
        else:
            limits.lose(part["type"], limits.said)


def _thought(id: str, part: Mapping[str, Any], limits: Limits) -> Iterator[dict[str, Any]]:
    if "item" in part:
        yield dict(part["item"])
    elif not part.get("thinking"):
        lose_thought(part, limits)
    elif keeps_thoughts(limits):
        said = [{"type": "reasoning_text", "text": part["thinking"]}]
        yield {"type": "reasoning", "id": id, "summary": [], "content": said}


def _written(content: Any, limits: Limits) -> Any:
    if not isinstance(content, list):
        return content
    parts = [written for part in content for written in _write_part(part, limits)]
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "input_text" else parts


def _write_part(part: Mapping[str, Any], limits: Limits) -> Iterator[dict[str, Any]]:
    kind = part["type"]
    if kind == "text":
        yield {"type": "input_text", "text": part["text"]}
    elif kind == "image_url":
        image = part["image_url"]
        yield {"type": "input_image", "image_url": image.get("url"), "detail": image.get("detail") or "auto"}
    elif kind == "file":
        yield from _write_file(part["file"], limits)
    else:
        limits.lose(kind, limits.said)


def _write_file(file: Mapping[str, Any], limits: Limits) -> Iterator[dict[str, Any]]:
    said = spread_file(file, limits)
    if said is not None:
        for part in said:
            yield from _write_part(part, limits)
    elif file.get("file_data") or file.get("file_url") or lose_file_id(file, limits):
        yield {"type": "input_file", **{name: file[name] for name in _FILE_NAMES if file.get(name)}}
