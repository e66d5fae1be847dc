"""Tells whether the tools that an answer calls are called as its request offers them.

Read are the tools' names, that arguments are JSON, and of their JSON schema `type`, `enum`, `required`, `properties` and
`items`. What else a schema asks for is not looked at, so a call that is found wrong is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engines.answers.answer import Assembled
from engines.chat import ChatRequest
from engines.loose_json import listed, member, objects, parsed

_MOST_DEPTH = 32
"""What is nested deeper in a schema is not looked at."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def well_called(answer: Assembled, chat: ChatRequest) -> bool:
    """Tell if every tool that the first choice calls is one of the request's, with arguments that its schema allows."""
    described = {_name(tool): tool for tool in objects(chat.fields.get("tools"))}
    described |= {
        _name({"function": each}): {"function": each} for each in objects(chat.fields.get("functions"))
    }
    return all(_fits_tool(call, described) for call in answer.calls())


def _name(tool: Mapping[str, Any]) -> Any:
    """A tool's name, in a chat completion's words or in those of Responses."""
    return member(tool.get(str(tool.get("type", "function"))), "name") or tool.get("name")


def _fits_tool(call: Mapping[str, Any], described: Mapping[Any, Mapping[str, Any]]) -> bool:
    tool = described.get(call.get("name"))
    if tool is None:
        return False
    if tool.get("type", "function") != "function":
        # Its input is free text.
        return True
    written = call.get("arguments")
    arguments = parsed(written or "{}") if isinstance(written, str) else written
    return isinstance(arguments, dict) and _fits(arguments, member(tool.get("function"), "parameters"))


def _fits(value: Any, schema: Any, depth: int = _MOST_DEPTH) -> bool:
    """Tell if a value is what a JSON schema allows, as far as it is read."""
    if not isinstance(schema, dict) or not depth:
        return True
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else listed(kinds)
    if kinds and not any(_is(value, kind) for kind in kinds):
        return False
    if "enum" in schema and value not in listed(schema["enum"]):
        return False
    if isinstance(value, list):
        return all(_fits(each, schema.get("items"), depth - 1) for each in value)
    if not isinstance(value, dict):
        return True
    described = schema.get("properties")
    return all(name in value for name in listed(schema.get("required"))) and all(
        _fits(each, member(described, name), depth - 1) for name, each in value.items()
    )


def _is(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return bool(kind == "boolean")
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(str(kind), (object,)))
