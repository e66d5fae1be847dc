"""Bodies of `/v1/messages` and the neutral request, both ways. Pure functions."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from engines.codecs.custom_tools import as_function, as_function_call, as_function_choice
from engines.codecs.neutral import (
    Limits,
    Neutral,
    as_parts,
    is_lead,
    keeps_thoughts,
    lose_field,
    lose_file_id,
    lose_members,
    lose_thought,
    marked,
    read_fields,
    write_fields,
)
from engines.codecs.thinking import thinking_of
from engines.large_json import dumped
from engines.loose_json import listed, member, objects, text

DEFAULT_MAX_TOKENS = 8192
"""The most tokens of an answer where the client names no limit: this API demands one. Every Claude since 3.5 can say as
many, and an answer that is cut off there says so."""
DEFAULT_THINKING_MAX_TOKENS = 32_000
"""The same where it is to think, which counts, too: what the least of the Claudes that think can say."""
_TOOL = {"name": "name", "description": "description", "input_schema": "parameters", "strict": "strict"}
"""Members of a tool here, and of a function of a chat."""
_CACHE = frozenset({"type", "cache_control"})
_TOOL_KNOWN = _CACHE | _TOOL.keys() | {"eager_input_streaming"}
_BLOCKS: Mapping[str, frozenset[str]] = {
    # What an earlier answer cited stands in the documents.
    "text": _CACHE | {"text", "citations"},
    "image": _CACHE | {"source"},
    "document": _CACHE | {"source", "title", "context", "citations"},
    "tool_use": _CACHE | {"id", "name", "input", "caller"},
    "tool_result": _CACHE | {"tool_use_id", "content", "is_error"},
    "thinking": _CACHE | {"thinking", "signature"},
    "redacted_thinking": _CACHE | {"data"},
}
"""The members of each type of block that are read, or say nothing to another engine."""
_MESSAGE = frozenset({"role", "content"})
_DOCUMENT = {"title": "filename", "context": "context", "citations": "citations"}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_CHOSEN = {ours: theirs for theirs, ours in _CHOICES.items()}
_TIERS = {"auto": "auto", "standard_only": "default"}
_TIERED = {ours: theirs for theirs, ours in _TIERS.items()}
_SINGLE = "disable_parallel_tool_use"
_PDF = "application/pdf"
_NO_ID = re.compile(r"[^a-zA-Z0-9_-]")
_LONG_NUMBER = re.compile(r"\d{19}")


def read(own: Mapping[str, Any], limits: Limits) -> Neutral:
    """A message's body as a neutral request."""
    fields = read_fields(_current(own), limits)
    if "tool_choice" in fields:
        fields |= _read_choice(fields["tool_choice"])
    if "response_format" in fields:
        made = {"name": "answer", "schema": member(fields["response_format"], "schema"), "strict": True}
        fields["response_format"] = {"type": "json_schema", "json_schema": made}
    if "service_tier" in fields:
        fields["service_tier"] = _TIERS.get(fields["service_tier"], fields["service_tier"])
    given = listed(fields.pop("tools", None))
    if tools := [_read_tool(tool) for tool in given if _is_known(tool, limits)]:
        fields["tools"] = tools
    messages: list[dict[str, Any]] = []
    if own.get("system"):
        messages.append({"role": "system", "content": _content(own["system"], limits)})
    for message in own["messages"]:
        lose_members(message, _MESSAGE, "messages", limits)
        messages += _read(message["role"], message["content"], limits)
    return Neutral(fields, messages)


def _current(own: Mapping[str, Any]) -> dict[str, Any]:
    """The body without what says nothing to another engine, and with the older name of a field replaced."""
    kept = dict(own)
    edits = objects(member(kept.get("context_management"), "edits"))
    # How much of earlier thinking is kept is for engines that keep thinking.
    if all(text(edit.get("type")).startswith("clear_thinking") for edit in edits):
        kept.pop("context_management", None)
    form = kept.pop("output_format", None)
    if form is not None:
        kept["output_config"] = {"format": form, **(kept.get("output_config") or {})}
    return kept


def write(neutral: Neutral, limits: Limits) -> dict[str, Any]:
    """The body's fields that say a neutral request."""
    fields = dict(neutral.fields)
    effort = fields.pop("reasoning_effort", None)
    thinks = effort not in (None, "none")
    fields.setdefault("max_completion_tokens", DEFAULT_THINKING_MAX_TOKENS if thinks else DEFAULT_MAX_TOKENS)
    if effort is not None:
        limit, unsigned = fields["max_completion_tokens"], _is_unsigned(neutral.messages)
        fields |= thinking_of(effort, str(fields.get("model", "")), limit, unsigned=unsigned)
    temperature = fields.get("temperature")
    if isinstance(temperature, int | float) and temperature > 1:
        lose_field("temperature", limits)
        del fields["temperature"]
    form = fields.pop("response_format", None)
    if member(form, "type") == "json_schema":
        fields["response_format"] = {"type": "json_schema", "schema": form["json_schema"].get("schema")}
    elif member(form, "type") not in (None, "text"):
        lose_field("response_format", limits)
    tier = fields.pop("service_tier", None)
    if tier in _TIERED:
        fields["service_tier"] = _TIERED[tier]
    elif tier is not None:
        lose_field("service_tier", limits)
    _write_tools(fields, limits)
    return {**write_fields(fields, limits), **_conversation(neutral.messages, limits)}


def _is_unsigned(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Tells whether it goes on with a turn of the assistant's whose thinking is not at hand."""
    if not messages or messages[-1]["role"] not in ("assistant", "tool"):
        return False
    turns = [message for message in messages if message["role"] == "assistant"]
    return not turns or not any("signature" in part for part in as_parts(turns[-1]["content"]))


def _write_tools(fields: dict[str, Any], limits: Limits) -> None:
    """Say the tools and their choice in this API's words. Without tools there is nothing to choose."""
    choice, parallel = fields.pop("tool_choice", None), fields.pop("parallel_tool_calls", None)
    if "tools" in fields:
        fields["tools"] = [_write_tool(as_function(tool, limits)) for tool in fields["tools"]]
        if made := _choice(as_function_choice(choice), limits, single=parallel is False):
            fields["tool_choice"] = made
    elif choice not in (None, "auto", "none"):
        lose_field("tool_choice", limits)


def _is_known(tool: Any, limits: Limits) -> bool:
    kind = member(tool, "type")
    if kind not in (None, "custom"):
        limits.lose(str(kind), "tools")
        return False
    lose_members(tool, _TOOL_KNOWN, "tools", limits)
    return True


def _read_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = {theirs: tool[name] for name, theirs in _TOOL.items() if name in tool}
    return {"type": "function", "function": function, **_cached(tool)}


def _cached(block: Mapping[str, Any]) -> dict[str, Any]:
    return {"cache_control": block["cache_control"]} if block.get("cache_control") else {}


def _write_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    written = {name: function[theirs] for name, theirs in _TOOL.items() if function.get(theirs) is not None}
    written.setdefault("input_schema", {"type": "object", "properties": {}})
    return {**written, **_cached(tool)}


def _read_choice(choice: Any) -> dict[str, Any]:
    kind = member(choice, "type")
    named = {"type": "function", "function": {"name": member(choice, "name")}}
    read = {"tool_choice": named if kind == "tool" else _CHOICES.get(str(kind), kind)}
    return read | ({"parallel_tool_calls": False} if member(choice, _SINGLE) else {})


def _choice(choice: Any, limits: Limits, *, single: bool) -> dict[str, Any] | None:
    one = {_SINGLE: True} if single and choice != "none" else {}
    if choice is None:
        return {"type": "auto", **one} if one else None
    if isinstance(choice, str) and choice in _CHOSEN:
        return {"type": _CHOSEN[choice], **one}
    if member(choice, "type") == "function":
        return {"type": "tool", "name": choice["function"].get("name"), **one}
    lose_field("tool_choice", limits)
    return None


def _read(role: str, content: Any, limits: Limits) -> Iterator[dict[str, Any]]:
    """A message: each result of a tool in it is one of its own, before the rest."""
    if isinstance(content, str):
        yield {"role": role, "content": content}
        return
    calls: list[dict[str, Any]] = []
    rest: list[dict[str, Any]] = []
    for block in content:
        kind = member(block, "type")
        if kind == "tool_result":
            yield _read_result(block, limits)
        elif kind == "tool_use":
            calls.append(_read_call(block, limits))
        else:
            rest += _read_block(block, limits)
    if calls:
        yield {"role": role, "content": rest or None, "tool_calls": calls}
    elif rest:
        yield {"role": role, "content": rest}


def _read_result(block: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    lose_members(block, _BLOCKS["tool_result"], "messages", limits)
    said = _content(block.get("content") or "", limits)
    read = {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": said, **_cached(block)}
    return read | ({"is_error": True} if block.get("is_error") else {})


def _read_call(block: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    lose_members(block, _BLOCKS["tool_use"], "messages", limits)
    arguments = dumped(block.get("input") or {}).decode()
    function = {"name": block.get("name"), "arguments": arguments}
    return {"id": block.get("id"), "type": "function", "function": function, **_cached(block)}


def _content(content: Any, limits: Limits) -> Any:
    return (
        content if isinstance(content, str) else [p for block in content for p in _read_block(block, limits)]
    )


def _read_block(block: Any, limits: Limits) -> Iterator[dict[str, Any]]:
    kind = str(member(block, "type"))
    if kind not in _BLOCKS:
        limits.lose(kind, "messages")
        return
    lose_members(block, _BLOCKS[kind], "messages", limits)
    if kind == "text":
        yield {"type": "text", "text": block.get("text"), **_cached(block)}
    elif kind == "image":
        url = _url(block.get("source"), limits)
        if url is not None:
            yield {"type": "image_url", "image_url": {"url": url}, **_cached(block)}
    elif kind == "document":
        yield {"type": "file", "file": _read_document(block, limits), **_cached(block)}
    else:
        yield dict(block)


def _url(source: Any, limits: Limits) -> str | None:
    kind = member(source, "type")
    if kind == "base64":
        return f"data:{member(source, 'media_type')};base64,{member(source, 'data')}"
    if kind == "url":
        return text(member(source, "url"))
    limits.lose("file_id" if kind == "file" else str(kind), "messages")
    return None


def _read_document(block: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    source = block.get("source")
    kind = member(source, "type")
    file = {ours: block[name] for name, ours in _DOCUMENT.items() if block.get(name)}
    if member(file.get("citations"), "enabled") is False:
        del file["citations"]
    if kind == "text":
        file["text"] = member(source, "data")
    elif kind == "content":
        file["content"] = as_parts(_content(member(source, "content") or "", limits))
    else:
        file["file_url" if kind == "url" else "file_data"] = _url(source, limits)
    return file


def _conversation(messages: Sequence[Mapping[str, Any]], limits: Limits) -> dict[str, Any]:
    """The fields `system` and `messages`: turns of one role are one message, and results of tools come first in it."""
    lead = next((i for i, message in enumerate(messages) if not is_lead(message)), len(messages))
    # Who only instructs asks for an answer nevertheless: this API wants a message.
    lead -= lead == len(messages) > 0
    written: list[dict[str, Any]] = []
    for message in messages[lead:]:
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = _written(message, limits)
        if not blocks:
            continue
        if not written or written[-1]["role"] != role:
            written.append({"role": role, "content": blocks})
            continue
        before, more = _as_blocks(written[-1]["content"]), _as_blocks(blocks)
        results = (
            sum(block["type"] == "tool_result" for block in before)
            if message["role"] == "tool"
            else len(before)
        )
        written[-1]["content"] = [*before[:results], *more, *before[results:]]
    said: dict[str, Any] = {"messages": written}
    if lead == 1 and isinstance(messages[0]["content"], str):
        said["system"] = messages[0]["content"]
    elif lead:
        said["system"] = [block for each in messages[:lead] for block in _blocks(each["content"], limits)]
    return said


def _written(message: Mapping[str, Any], limits: Limits) -> Any:
    """The content of a message: a string, or blocks."""
    role, content = message["role"], message["content"]
    if role == "tool":
        return [_result(message, limits)]
    if role in ("user", "assistant"):
        calls = message.get("tool_calls") or ()
        if isinstance(content, str) and not calls:
            return content
        return [*_blocks(content, limits), *(_use(as_function_call(call), limits) for call in calls)]
    return list(_blocks(marked(content), limits))


def _as_blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _result(message: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    content = message["content"]
    said = content if isinstance(content, str) else list(_blocks(content, limits))
    id = _NO_ID.sub("_", text(message.get("tool_call_id")))
    result = {"type": "tool_result", "tool_use_id": id, "content": said}
    return result | ({"is_error": True} if message.get("is_error") else {}) | _cached(message)


def _use(call: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    function = call.get("function") or {}
    arguments = _arguments(text(function.get("arguments")) or "{}")
    if arguments is None:
        limits.lose("arguments", limits.said)
    # Other engines' ids may have dots and colons, which are refused here.
    use = {
        "id": _NO_ID.sub("_", text(call.get("id"))),
        "name": function.get("name"),
        "input": arguments or {},
    }
    return {"type": "tool_use", **use, **_cached(call)}


def _arguments(written: str) -> dict[str, Any] | None:
    """The object that a call's arguments are; None where they are none."""
    try:
        # The quicker reader rounds integers beyond 64 bits, such as some ids.
        read = json.loads(written) if _LONG_NUMBER.search(written) else orjson.loads(written)
    except ValueError:
        return None
    return read if isinstance(read, dict) else None


def _blocks(content: Any, limits: Limits) -> Iterator[dict[str, Any]]:
    for part in as_parts(content):
        kind = part["type"]
        if kind == "text":
            # An empty text is refused here.
            if part["text"]:
                yield {"type": "text", "text": part["text"], **_cached(part)}
        elif kind == "image_url":
            yield {"type": "image", "source": _source(text(part["image_url"].get("url"))), **_cached(part)}
        elif kind == "file":
            yield from _document(part, limits)
        elif kind in ("thinking", "redacted_thinking"):
            yield from _thought(part, limits)
        else:
            limits.lose(kind, limits.said)


def _thought(part: Mapping[str, Any], limits: Limits) -> Iterator[dict[str, Any]]:
    """A block that is signed, or closed: this API takes no other thinking."""
    if "signature" not in part and "data" not in part:
        lose_thought(part, limits)
    elif keeps_thoughts(limits):
        yield {name: value for name, value in part.items() if name != "item"}


def _source(url: str) -> dict[str, Any]:
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    kind, _, data = url.removeprefix("data:").partition(",")
    return {"type": "base64", "media_type": kind.partition(";")[0], "data": data}


def _document(part: Mapping[str, Any], limits: Limits) -> Iterator[dict[str, Any]]:
    file = part["file"]
    source: dict[str, Any] | None = None
    if "text" in file:
        source = {"type": "text", "media_type": "text/plain", "data": file["text"]}
    elif "content" in file:
        source = {"type": "content", "content": list(_blocks(file["content"], limits))}
    elif file.get("file_url"):
        source = {"type": "url", "url": file["file_url"]}
    elif file.get("file_data"):
        source = _of_data(text(file["file_data"]), text(file.get("filename")))
        if source is None:
            limits.lose("file", limits.said)
    else:
        lose_file_id(file, limits)
    if source is not None:
        told = {name: file[theirs] for name, theirs in _DOCUMENT.items() if file.get(theirs)}
        yield {"type": "document", "source": source, **told, **_cached(part)}


def _of_data(data: str, name: str) -> dict[str, Any] | None:
    """A file's data as a source; None where it is neither PDF nor text, which are all that this API reads."""
    kind, encoded = _PDF if name.endswith(".pdf") else "", data
    if data.startswith("data:"):
        source = _source(data)
        kind, encoded = source["media_type"], source["data"]
    if kind == _PDF:
        return {"type": "base64", "media_type": _PDF, "data": encoded}
    if not kind.startswith("text/"):
        return None
    try:
        read = base64.b64decode(encoded).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return {"type": "text", "media_type": "text/plain", "data": read}
