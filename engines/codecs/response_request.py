"""A body of `/v1/responses` said as a chat completion, and the examples put among its input. Pure functions.

What is said of a request is what policies, examples and scopes read; what they do not read is left out. An input that
cannot be said in full as messages is one of which nothing is remembered: `state_of` names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

from engines.chat import ChatRequest
from engines.chat_json import MODEL, STREAM, Parameter, check_types, wrong_type
from engines.loose_json import listed, member, objects, text

_AS_IN_CHAT = (
    *("model", "stream", "temperature", "top_p", "top_logprobs", "parallel_tool_calls", "seed", "stop"),
    *("store", "metadata", "user", "safety_identifier", "service_tier", "prompt_cache_key"),
)
"""Fields that mean the same in both APIs."""
_PARAMETERS = (
    MODEL,
    Parameter("input", (str, list, NoneType), "a string or a list of items"),
    STREAM,
    Parameter("instructions", (str, NoneType), "a string"),
)
_TEXT_PARTS = frozenset({"input_text", "output_text", "text", "summary_text", "refusal"})
_OWN_TOOLS = frozenset({"function", "custom"})
"""Tools that the client itself runs. All others are hosted: the engine's own account runs them."""
_STATEFUL = ("previous_response_id", "conversation", "background", "prompt", "context_management")
"""Fields that name what the engine has stored, or have it store or do more than answer."""
SAID_IN_FULL = frozenset(
    {"message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"}
)
"""Types of input items that a chat completion can say, too."""
_HELD = ("file_id", "container", "container_id", "vector_store_ids")
_MOST_DEPTH = 6


def read_request(body: bytes, fields: dict[str, Any]) -> ChatRequest:
    """The typed view of a body. Raises RequestError 400 naming the parameter that is wrong."""
    check_types(fields, _PARAMETERS)
    given = fields.get("input")
    for i, item in enumerate(listed(given)):
        if not isinstance(item, dict):
            raise wrong_type(f"input[{i}]", "an object", item)
    messages = [*_lead(fields.get("instructions")), *messages_of(given)]
    return ChatRequest(
        body,
        _as_chat(fields, messages),
        fields.get("model", ""),
        messages,
        stream=bool(fields.get("stream")),
        include_usage=False,
        api="responses",
        raw=fields,
        state=state_of(fields),
    )


def messages_of(given: str | Sequence[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """An `input` as messages, one for each item."""
    if given is None:
        return []
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [_message(item) for item in given]


def with_messages(chat: ChatRequest, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of the body with these messages, which are its own and examples among them.

    Examples are put before the same item of the input as before the same message.
    """
    own, fields = chat.messages, dict(chat.own_fields)
    more = len(messages) - len(own)
    at = next((i for i, one in enumerate(own) if messages[i] is not one), len(own)) if more > 0 else 0
    instructed = len(_lead(fields.get("instructions")))
    given = fields.get("input")
    items = list(given) if isinstance(given, list) else [{"role": "user", "content": given}] if given else []
    if (
        more > 0
        and at >= instructed
        and all(a is b for a, b in zip(messages[at + more :], own[at:], strict=True))
    ):
        shown = [dict(message) for message in messages[at : at + more]]
        at -= instructed
        fields["input"] = [*items[:at], *shown, *items[at:]]
        return fields
    # Other messages than its own: said in this API's words, as far as those of a text go.
    fields.pop("instructions", None)
    fields["input"] = [item for message in messages for item in _items(message)]
    return fields


def state_of(fields: Mapping[str, Any]) -> str:
    """The first field that makes the answer depend on more than the body, or do more than answer; else nothing."""
    for name in _STATEFUL:
        if fields.get(name):
            return name
    if not all(str(member(tool, "type")) in _OWN_TOOLS for tool in listed(fields.get("tools"))):
        return "tools"
    given = fields.get("input")
    if given is None or not (isinstance(given, str) or all(map(_is_said_in_full, given))):
        return "input"
    return ""


def stored_ids(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(parameter, id) of what a body names that an engine stored: answers, conversations, and items of either."""
    conversation = fields.get("conversation")
    if previous := text(fields.get("previous_response_id")):
        yield "previous_response_id", previous
    if named := text(conversation) or text(member(conversation, "id")):
        yield "conversation", named
    for i, item in enumerate(listed(fields.get("input"))):
        if isinstance(id := member(item, "id"), str) and _refers(item):
            yield f"input[{i}].id", id


def with_items(fields: Mapping[str, Any], items: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The `input` as a list of items, with those that `items` has by id in the place of what refers to them."""
    found: list[dict[str, Any]] = []
    for item in input_items(fields):
        if _refers(item) and item.get("id") in items:
            found += said_before([items[item["id"]]])
        else:
            found.append(item)
    return found


def input_items(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The `input` as a list of items."""
    given = fields.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]}]
    return [dict(item) for item in listed(given)]


def said_before(output: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Gives what an answer said and called as input items that every engine can read: without ids, which another
    engine would look up, and without reasoning."""
    for item in objects(output):
        kind = item.get("type")
        if kind == "message":
            said = "".join(text(member(_part(part), "text")) for part in item.get("content") or ())
            yield {"role": "assistant", "content": said}
        elif kind in SAID_IN_FULL:
            yield {name: value for name, value in item.items() if name not in ("id", "status")}


def _lead(instructions: object) -> list[Mapping[str, Any]]:
    return [{"role": "system", "content": instructions}] if isinstance(instructions, str) else []


def kind_of(item: Mapping[str, Any]) -> str:
    """Names the kind of an item: without a type it is a message, or a reference to another item."""
    return str(item.get("type") or ("message" if "role" in item else "item_reference"))


def _refers(item: Mapping[str, Any]) -> bool:
    """Tells whether its id says more than it does itself."""
    return kind_of(item) in ("item_reference", "reasoning", "compaction")


def _message(item: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = kind_of(item)
    if kind == "message":
        return {"role": str(item.get("role") or "user"), "content": _content(item.get("content"))}
    if kind in ("function_call", "custom_tool_call"):
        called = {"name": item.get("name"), "arguments": item.get("arguments", item.get("input"))}
        call = {"id": item.get("call_id"), "type": "function", "function": called}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if kind in ("function_call_output", "custom_tool_call_output"):
        said = _content(item.get("output"))
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": said}
    return {"role": "tool", "content": [{"type": kind}]}


def _content(content: Any) -> Any:
    return [_part(part) for part in content] if isinstance(content, list) else content


def _part(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    kind = str(part.get("type"))
    if kind in _TEXT_PARTS:
        return {"type": "text", "text": part.get("refusal") if kind == "refusal" else part.get("text")}
    if kind == "input_image":
        return {
            "type": "image_url",
            "image_url": {"url": part.get("image_url"), "detail": part.get("detail")},
        }
    return {**part, "type": kind}


def _items(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A message of text, or of tool calls, as input items."""
    if message.get("role") == "tool":
        output = {"call_id": message.get("tool_call_id"), "output": message.get("content")}
        yield {"type": "function_call_output", **output}
        return
    if message.get("content"):
        yield {"role": message.get("role"), "content": message["content"]}
    for call in message.get("tool_calls") or ():
        yield {"type": "function_call", "call_id": call.get("id"), **(call.get("function") or {})}


def _is_said_in_full(item: Mapping[str, Any]) -> bool:
    return kind_of(item) in SAID_IN_FULL and not _names_files(item, _MOST_DEPTH)


def _names_files(value: Any, depth: int) -> bool:
    """Tells whether it names a file, or a container. What is nested too deeply may."""
    if isinstance(value, dict):
        if value.get("type") == "input_file" or any(value.get(name) for name in _HELD) or not depth:
            return True
        return any(_names_files(each, depth - 1) for each in value.values())
    return isinstance(value, list) and (not depth or any(_names_files(each, depth - 1) for each in value))


def _as_chat(fields: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    said: dict[str, Any] = {name: fields[name] for name in _AS_IN_CHAT if name in fields}
    said["messages"] = messages
    form, tools = fields.get("text"), fields.get("tools")
    elsewhere = {
        "response_format": _form(member(form, "format")),
        "verbosity": member(form, "verbosity"),
        "reasoning_effort": member(fields.get("reasoning"), "effort"),
        "max_completion_tokens": fields.get("max_output_tokens"),
        "logprobs": "message.output_text.logprobs" in listed(fields.get("include")) or None,
    }
    said |= {name: value for name, value in elsewhere.items() if value is not None}
    if tools:
        said["tools"] = list(map(_tool, tools)) if isinstance(tools, list) else tools
        if fields.get("tool_choice") is not None:
            said["tool_choice"] = fields["tool_choice"]
    return said


def _form(form: Any) -> Any:
    """A `text.format` as a `response_format`; None for plain text, which is what no format means."""
    kind = member(form, "type")
    if kind == "json_schema":
        return {"type": kind, "json_schema": {name: form[name] for name in form if name != "type"}}
    return form if isinstance(form, dict) and kind != "text" else None


def _tool(tool: Any) -> Any:
    if member(tool, "type") != "function":
        return tool
    return {"type": "function", "function": {name: tool[name] for name in tool if name != "type"}}
