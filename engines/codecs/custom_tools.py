"""Tools that only OpenAI's APIs have, as functions for APIs that have functions only: custom tools, and namespaces.

A custom tool is called with a text: it becomes a function with one argument. A tool of a namespace becomes one whose name
begins with the namespace's, as servers of models and other gateways do it (openai/codex#26234, BerriAI/litellm#32536).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engines.chat import ChatRequest
from engines.codecs.neutral import Limits, lose_members
from engines.large_json import dumped
from engines.loose_json import member, objects, parsed_object, text

ARGUMENT = "input"
"""The argument of the function that holds a custom tool's text."""
_JOINT = "__"
_FUNCTION = frozenset({"name", "description", "parameters", "strict"})
_CUSTOM = frozenset({"name", "description", "format"})


def as_function(tool: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """A tool as a function. A grammar binds nobody there: it is refused, or else told in the description."""
    function = tool.get("function") or {}
    if tool["type"] == "custom":
        function = _of_text(tool.get("custom") or {}, limits)
    lose_members(function, _FUNCTION, "tools", limits)
    function = {name: value for name, value in function.items() if name in _FUNCTION}
    namespace = tool.get("namespace")
    if namespace:
        described = (text(namespace.get("description")), text(function.get("description")))
        name = flat_name(text(namespace.get("name")), text(function.get("name")))
        function = {**function, "name": name, "description": "\n\n".join(filter(None, described))}
    cached = {"cache_control": tool["cache_control"]} if "cache_control" in tool else {}
    return {"type": "function", "function": function, **cached}


def _of_text(custom: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    lose_members(custom, _CUSTOM, "tools", limits)
    described, form = text(custom.get("description")), custom.get("format")
    if member(form, "type") == "grammar":
        limits.lose("grammar", "tools")
        grammar = member(form, "grammar") or {}
        described += (
            f"\n\nThe input follows this {grammar.get('syntax')} grammar:\n{grammar.get('definition')}"
        )
    schema = {"type": "object", "properties": {ARGUMENT: {"type": "string"}}, "required": [ARGUMENT]}
    return {"name": custom.get("name"), "description": described.strip(), "parameters": schema}


def as_function_call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """A call of a tool as a call of a function."""
    namespace, custom = call.get("namespace"), call.get("type") == "custom"
    if not namespace and not custom:
        return call
    use = dict(call.get("custom" if custom else "function") or {})
    if custom:
        use = {"name": use.get("name"), "arguments": dumped({ARGUMENT: use.get("input")}).decode()}
    use["name"] = flat_name(text(namespace), text(use.get("name")))
    return {"id": call.get("id"), "type": "function", "function": use}


def as_function_choice(choice: Any) -> Any:
    """A choice of a tool as one of a function."""
    kind = str(member(choice, "type"))
    if kind not in ("function", "custom"):
        return choice
    name = flat_name(text(choice.get("namespace")), text(member(choice.get(kind), "name")))
    return {"type": "function", "function": {"name": name}}


def flat_name(namespace: str, name: str) -> str:
    """The name of a function that stands for a tool of a namespace; the tool's own where it is of none."""
    return f"{namespace.rstrip('_')}{_JOINT}{name}" if namespace else name


def custom_names(chat: ChatRequest) -> frozenset[str]:
    """The names, as functions, of the custom tools that a client described: a call of one is told to it as a custom call."""
    return frozenset(name for name, _, tool in _described(chat) if tool.get("type") == "custom")


def namespaced(chat: ChatRequest) -> Mapping[str, tuple[str, str]]:
    """The namespace, and the name in it, of the tools of namespaces, by their names as functions: a call of one is told to
    the client with both."""
    return {
        name: (namespace, text(tool.get("name"))) for name, namespace, tool in _described(chat) if namespace
    }


def _described(chat: ChatRequest) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Each tool that the client runs: its name as a function, its namespace, and what describes it."""
    if chat.api == "messages":
        return
    for tool in objects(chat.own_fields.get("tools")):
        if tool.get("type") == "namespace":
            namespace = text(tool.get("name"))
            for inner in objects(tool.get("tools")):
                yield flat_name(namespace, text(inner.get("name"))), namespace, inner
        else:
            yield text(member(tool.get("custom"), "name") or tool.get("name")), "", tool


def input_of(arguments: str) -> str:
    """The text that a function's arguments hold for a custom tool."""
    return text(parsed_object(arguments).get(ARGUMENT))
