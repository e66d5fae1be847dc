"""A body of `/v1/messages` said as a chat completion, and examples put among its messages. Pure functions.

What is said of a request is what policies, examples and scopes read. A block that a chat completion has no word for becomes
a part of its own type, so that nobody takes the request for plain text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

from engines.chat import ChatRequest, message_text
from engines.chat_json import MESSAGES, MODEL, STREAM, Parameter, check_types, wrong_type
from engines.loose_json import listed, member, objects

_AS_IN_CHAT = ("model", "stream", "temperature", "top_p", "max_tokens", "thinking")
"""Fields that mean the same in both APIs."""
_PARAMETERS = (
    MODEL,
    MESSAGES,
    Parameter("system", (str, list, NoneType), "a string or a list of blocks"),
    STREAM,
)
_STATEFUL = ("container", "mcp_servers")
"""Fields that name what the engine has stored, or have it do more than answer."""
_CLIENT_TOOLS = (None, "custom")
"""Types of tools that the client itself describes and runs. Of all others the engine has its own description, and it runs
most of them."""
_HELD_BLOCKS = frozenset({"container_upload", "mcp_tool_use", "mcp_tool_result"})
_MOST_DEPTH = 6


def read_request(body: bytes, fields: dict[str, Any]) -> ChatRequest:
    """The typed view of a body. Raises RequestError 400 naming the parameter that is wrong."""
    check_types(fields, _PARAMETERS)
    given, system = fields["messages"], fields.get("system")
    for i, message in enumerate(given):
        if not isinstance(message, dict):
            raise wrong_type(f"messages[{i}]", "an object", message)
        if not isinstance(message.get("role"), str):
            raise wrong_type(f"messages[{i}].role", "a string", message.get("role"))
        content = message.get("content")
        if not isinstance(content, str | list):
            raise wrong_type(f"messages[{i}].content", "a string or a list of blocks", content)
    messages = [*_lead(system), *map(_message, given)]
    return ChatRequest(
        body,
        _as_chat(fields, messages),
        fields.get("model", ""),
        messages,
        stream=bool(fields.get("stream")),
        # Every stream of this API tells its usage.
        include_usage=True,
        api="messages",
        raw=fields,
        state=state_of(fields),
    )


def with_messages(chat: ChatRequest, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of the body with these messages, which are its own and examples among them.

    Its system prompt stands apart, so that examples come first among the messages. Other messages than its own are said in
    this API's words, as far as those of a text go.
    """
    own, fields = chat.messages, dict(chat.own_fields)
    lead = len(_lead(fields.get("system")))
    more = len(messages) - len(own)
    after = messages[lead + max(0, more) :]
    if more >= 0 and _are([*messages[:lead], *after], own):
        fields["messages"] = [*map(dict, messages[lead : lead + more]), *fields["messages"]]
        return fields
    system = [message_text(m.get("content")) for m in messages if m.get("role") in ("system", "developer")]
    fields.pop("system", None)
    if system:
        fields["system"] = "\n\n".join(system)
    fields["messages"] = [
        {"role": _role(m), "content": message_text(m.get("content"))}
        for m in messages
        if m.get("role") not in ("system", "developer")
    ]
    return fields


def state_of(fields: Mapping[str, Any]) -> str:
    """The first field that makes the answer depend on more than the body, or do more than answer; else nothing."""
    for name in _STATEFUL:
        if fields.get(name):
            return name
    if not all(map(_is_clients, listed(fields.get("tools")))):
        return "tools"
    if any(_is_held(block) for message in fields.get("messages") or () for block in _blocks(message)):
        return "messages"
    return "system" if any(map(_is_held, listed(fields.get("system")))) else ""


def _are(some: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def _role(message: Mapping[str, Any]) -> str:
    return "assistant" if message.get("role") == "assistant" else "user"


def _lead(system: object) -> list[Mapping[str, Any]]:
    return [{"role": "system", "content": _content(system)}] if system else []


def _as_chat(fields: Mapping[str, Any], messages: list[Mapping[str, Any]]) -> dict[str, Any]:
    said: dict[str, Any] = {name: fields[name] for name in _AS_IN_CHAT if fields.get(name) is not None}
    said["messages"] = messages
    if fields.get("stop_sequences"):
        said["stop"] = fields["stop_sequences"]
    if tools := listed(fields.get("tools")):
        said["tools"] = list(map(_tool, tools))
    if fields.get("tool_choice") is not None:
        said["tool_choice"] = fields["tool_choice"]
    form = _form(fields)
    if form is not None:
        said["response_format"] = form
    return said


def _form(fields: Mapping[str, Any]) -> Any:
    """Reads what the answer must look like, if something is asked of it."""
    config = fields.get("output_config")
    form = config.get("format") if isinstance(config, dict) else fields.get("output_format")
    if member(form, "type") != "json_schema":
        return form
    return {"type": "json_schema", "json_schema": {"name": "", "schema": member(form, "schema")}}


def _is_clients(tool: Any) -> bool:
    """Tells whether a tool is one that the client itself describes and runs."""
    return isinstance(tool, dict) and tool.get("type") in _CLIENT_TOOLS


def _tool(tool: Any) -> Any:
    if not _is_clients(tool):
        return tool
    function = {"name": tool.get("name"), "parameters": tool.get("input_schema")}
    if tool.get("description") is not None:
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def _message(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """One message of this API as one of a chat: with what tools said it is a tool's."""
    content = message["content"]
    if isinstance(content, str):
        return {"role": message["role"], "content": content}
    blocks = _blocks(message)
    calls = [
        {
            "id": block.get("id"),
            "type": "function",
            "function": {"name": block.get("name"), "arguments": block.get("input")},
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    role = "tool" if any(block.get("type") == "tool_result" for block in blocks) else message["role"]
    said = {"role": role, "content": _content(content)}
    return said | ({"tool_calls": calls} if calls else {})


def _content(content: Any) -> Any:
    """A message's content as parts of a chat's: text as text, anything else of its own type."""
    if not isinstance(content, list):
        return content
    return [part for block in content for part in _parts(block)]


def _parts(block: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(block, dict):
        yield {"type": "unknown"}
    elif block.get("type") == "text":
        yield {"type": "text", "text": block.get("text")}
    elif block.get("type") == "tool_result":
        said = block.get("content")
        yield from [{"type": "text", "text": said}] if isinstance(said, str) else _content(said or [])
    elif block.get("type") != "tool_use":
        yield {"type": block.get("type")}


def _blocks(message: Any) -> list[dict[str, Any]]:
    return objects(member(message, "content"))


def _is_held(block: Any, depth: int = _MOST_DEPTH) -> bool:
    """Tells whether a block names something that the engine has stored, or that its account runs."""
    source = member(block, "source")
    if str(member(block, "type")) in _HELD_BLOCKS:
        return True
    if isinstance(source, dict) and (source.get("type") == "file" or "file_id" in source):
        return True
    return depth > 0 and any(_is_held(each, depth - 1) for each in _blocks(block))
