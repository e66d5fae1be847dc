"""Calls of tools that are as the request offers them, and calls that are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engines.answers.answer import Assembled, says_calls
from engines.asking import chat_of
from engines.calls import well_called

PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"enum": ["C", "F"]},
        "at": {"type": ["string", "null"]},
        "near": {"type": "array", "items": {"type": "object", "required": ["km"]}},
        "any": {"anyOf": [{"type": "string"}]},
    },
    "required": ["city"],
}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "now"}},
    {"type": "custom", "custom": {"name": "patch"}},
    {"type": "custom", "name": "shell"},
]


def answer(*calls: Any) -> Assembled:
    message = {"role": "assistant", "content": None, "tool_calls": list(calls)}
    return Assembled(
        {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}, whole=True
    )


def call(name: str, arguments: Any) -> dict[str, Any]:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": "1", "type": "function", "function": {"name": name, "arguments": written}}


@pytest.mark.parametrize(
    ("name", "arguments", "well"),
    [
        ("weather", {"city": "Rome"}, True),
        ("weather", {"city": "Rome", "days": 2, "unit": "C", "at": None, "more": [1]}, True),
        ("weather", {"city": "Rome", "days": 2.0, "near": [{"km": 1}], "any": 3}, True),
        ("weather", {"days": 2}, False),
        ("weather", {"city": 7}, False),
        ("weather", {"city": "Rome", "days": "2"}, False),
        ("weather", {"city": "Rome", "days": True}, False),
        ("weather", {"city": "Rome", "unit": "K"}, False),
        ("weather", {"city": "Rome", "near": [{"m": 1}]}, False),
        ("weather", '{"city": "Rome"', False),
        ("weather", '["Rome"]', False),
        ("wether", {"city": "Rome"}, False),
        ("now", "", True),
        ("now", {"zone": 1}, True),
        ("shell", "ls {", True),
    ],
)
def test_a_call_is_checked_by_name_and_schema(name: str, arguments: Any, well: bool) -> None:
    chat = chat_of({"tools": TOOLS}, [])
    assert well_called(answer(call(name, arguments)), chat) == well
    assert not well_called(answer(call("now", ""), call("wether", {})), chat)


def test_a_free_text_tool_and_a_function_of_the_older_kind_are_known_by_name() -> None:
    chat = chat_of({"tools": TOOLS, "functions": [{"name": "old", "parameters": PARAMETERS}]}, [])
    assert well_called(answer({"type": "custom", "custom": {"name": "patch", "input": "- a"}}), chat)
    assert well_called(answer(call("old", {"city": "Rome"})), chat)
    assert not well_called(answer(call("old", {})), chat)
    assert not well_called(answer({"type": "other"}), chat)


def test_calls_are_said_alike_whatever_their_order_and_spelling() -> None:
    one = answer(call("now", ""), call("weather", '{"city":"Rome","days":2}'))
    other = answer(call("weather", '{ "days": 2, "city": "Rome" }'), call("now", ""))
    assert one.said() == other.said() and says_calls(one.said())
    assert answer({"type": "custom", "custom": {"name": "patch", "input": "a"}}).said() != answer().said()
