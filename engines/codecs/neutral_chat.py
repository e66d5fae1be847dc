"""Chat completions and the neutral request, both ways. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from engines.codecs.custom_tools import as_function, as_function_call, as_function_choice
from engines.codecs.neutral import (
    FAILED,
    Limits,
    Neutral,
    as_parts,
    is_lead,
    keeps_thoughts,
    lose_file_id,
    lose_members,
    lose_thought,
    marked,
    openai_fields,
    read_fields,
    spread_file,
    write_fields,
)
from engines.loose_json import listed, member, objects

_PARTS: Mapping[str, frozenset[str]] = {
    kind: frozenset({"type", kind, "cache_control", "prompt_cache_breakpoint"})
    for kind in ("text", "image_url", "file", "input_audio", "refusal")
}
"""The members of each type of part that are read, or only help to find the prompt in a cache."""
_MESSAGE = frozenset(
    {
        *("role", "content", "tool_calls", "tool_call_id", "refusal", "reasoning_content", "thinking_blocks"),
        # These say the same again, or nothing to a model.
        *("reasoning", "reasoning_details", "annotations", "parsed", "cache_control"),
    }
)
_OF_TOOL = _MESSAGE | {"name"}
"""A tool's message may name the tool, whose call it names, too."""
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_TOOLS = frozenset({"function", "custom"})
_TOOL = frozenset({"type", "function", "custom", "cache_control"})
_FILE = frozenset({"file_data", "file_id", "filename"})
_IN_NEXT = {"type": "text", "text": "What it returned is in the message that follows."}


def read(own: Mapping[str, Any], limits: Limits) -> Neutral:
    """A chat completion's body as a neutral request."""
    given = {name: value for name, value in own.items() if value is not None}
    # The older name of the same limit.
    older = given.pop("max_tokens", None)
    if older is not None:
        given.setdefault("max_completion_tokens", older)
    fields = read_fields(given, limits)
    if isinstance(fields.get("stop"), str):
        fields["stop"] = [fields["stop"]]
    tools = [tool for tool in listed(fields.pop("tools", None)) if _is_known(tool, limits)]
    if tools:
        fields["tools"] = tools
    return Neutral(
        fields, [_read(message, limits) for message in own["messages"] if _has_role(message, limits)]
    )


def write(neutral: Neutral, limits: Limits) -> dict[str, Any]:
    """The body's fields that say a neutral request."""
    fields = openai_fields(neutral)
    if "tools" in fields:
        # Few servers of this API know custom tools.
        tools = [tool if limits.client == "chat" else as_function(tool, limits) for tool in fields["tools"]]
        fields["tools"] = [_uncached(tool) for tool in tools]
    if limits.client != "chat":
        # Kept by an engine that stores the request only, and refused by OpenAI's where it does not.
        fields.pop("metadata", None)
        if "tool_choice" in fields:
            fields["tool_choice"] = as_function_choice(fields["tool_choice"])
    if fields.get("stream"):
        fields["stream_options"] = {"include_usage": True}
    return {**write_fields(fields, limits), "messages": list(_messages(neutral.messages, limits))}


def _is_known(tool: Any, limits: Limits) -> bool:
    kind = member(tool, "type")
    if kind not in _TOOLS:
        limits.lose(str(kind), "tools")
        return False
    lose_members(tool, _TOOL, "tools", limits)
    return True


def _has_role(message: Mapping[str, Any], limits: Limits) -> bool:
    if message["role"] not in _ROLES:
        limits.lose(message["role"], "messages")
    return message["role"] in _ROLES


def _read(message: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    lose_members(message, _OF_TOOL if message["role"] == "tool" else _MESSAGE, "messages", limits)
    content = message.get("content")
    if isinstance(content, list):
        content = [_read_part(part) for part in content if _is_part(part, limits)]
    if message.get("refusal"):
        content = [*as_parts(content), {"type": "text", "text": message["refusal"]}]
    if message["role"] == "assistant" and (thoughts := _read_thoughts(message)):
        content = [*thoughts, *as_parts(content)]
    read = {"role": message["role"], "content": content}
    for name in ("tool_calls", "tool_call_id", "cache_control"):
        if message.get(name):
            read[name] = message[name]
    return read


def _read_thoughts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the assistant thought: as blocks with signatures where the client kept them, else as text."""
    if blocks := objects(message.get("thinking_blocks")):
        return blocks
    thought = message.get("reasoning_content") or message.get("reasoning")
    return [{"type": "thinking", "thinking": thought}] if isinstance(thought, str) else []


def _is_part(part: Any, limits: Limits) -> bool:
    known = _PARTS.get(str(member(part, "type")))
    if known is None:
        limits.lose(str(member(part, "type")), "messages")
        return False
    lose_members(part, known, "messages", limits)
    return True


def _read_part(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "text", "text": part.get("refusal")} if part["type"] == "refusal" else part


def _uncached(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: inner for name, inner in value.items() if name != "cache_control"}


def _messages(messages: Sequence[Mapping[str, Any]], limits: Limits) -> Iterator[dict[str, Any]]:
    """The messages. Those at the head that instruct become one: templates of many models take no second one."""
    lead = list(takewhile(is_lead, messages))
    if lead:
        yield {"role": "system", "content": _joined([each["content"] for each in lead], limits)}
    held: list[dict[str, Any]] = []
    """What tools returned beside text, which their own messages cannot hold: it follows them as the user's."""
    for message in messages[len(lead) :]:
        role, content = message["role"], message["content"]
        if role == "tool":
            yield _result(message, held, limits)
            continue
        if role == "assistant":
            if held:
                yield {"role": "user", "content": held}
            yield _assistant(message, limits)
        else:
            if is_lead(message) and limits.client != "chat":
                role, content = "user", marked(content)
            said = [*held, *_parts(content, limits)] if held else _content(content, limits)
            yield {"role": role, "content": said}
        held = []
    if held:
        yield {"role": "user", "content": held}


def _joined(contents: Sequence[Any], limits: Limits) -> Any:
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(contents)
    return _short([part for content in contents for part in _parts(content, limits)])


def _result(message: Mapping[str, Any], held: list[dict[str, Any]], limits: Limits) -> dict[str, Any]:
    """What a tool said; what else it returned is added to what is held."""
    id, content = message.get("tool_call_id"), message["content"]
    if not isinstance(content, str) or message.get("is_error"):
        parts = list(_parts(content, limits))
        said = [part for part in parts if part["type"] == "text"]
        if len(said) < len(parts):
            held.append({"type": "text", "text": f"Returned by {id}:"})
            held += [part for part in parts if part["type"] != "text"]
            said = said or [_IN_NEXT]
        content = _short([FAILED, *said] if message.get("is_error") else said) or ""
    return {"role": "tool", "tool_call_id": id, "content": content}


def _assistant(message: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    content, calls = message["content"], message.get("tool_calls")
    written: dict[str, Any] = {"role": "assistant", "content": content}
    if isinstance(content, list):
        thoughts = [part for part in content if part["type"] in ("thinking", "redacted_thinking")]
        if thoughts:
            written |= _thought(thoughts, limits)
            content = [part for part in content if part not in thoughts]
        written["content"] = _content(content, limits)
    if not written["content"]:
        written["content"] = None if calls else ""
    if calls:
        written["tool_calls"] = calls if limits.client == "chat" else [_call(call) for call in calls]
    return written


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    return _uncached(as_function_call(call))


def _thought(thoughts: Sequence[Mapping[str, Any]], limits: Limits) -> dict[str, Any]:
    """The text of what was thought. What only its own engine can read is lost."""
    texts = [part["thinking"] for part in thoughts if part.get("thinking")]
    for part in thoughts:
        if not part.get("thinking"):
            lose_thought(part, limits)
    return {"reasoning_content": "\n\n".join(texts)} if texts and keeps_thoughts(limits) else {}


def _content(content: Any, limits: Limits) -> Any:
    return _short(list(_parts(content, limits))) if isinstance(content, list) else content


def _short(parts: list[dict[str, Any]]) -> Any:
    """One text as a string, which every server reads."""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _parts(content: Any, limits: Limits) -> Iterator[dict[str, Any]]:
    for part in as_parts(content):
        if part["type"] == "file":
            yield from _file(part["file"], limits)
        else:
            yield _uncached(part)


def _file(file: Mapping[str, Any], limits: Limits) -> Iterator[dict[str, Any]]:
    said = spread_file(file, limits)
    if said is not None:
        yield from _parts(said, limits)
    elif file.get("file_url"):
        limits.lose("file_url", limits.said)
    elif file.get("file_data") or lose_file_id(file, limits):
        yield {"type": "file", "file": {name: file[name] for name in file if name in _FILE}}
