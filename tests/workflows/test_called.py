"""Inputs of a call: by name, out of a chat's messages, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from workflows.called import CallLimits, read_inputs
from workflows.declared import World, read_definition
from workflows.errors import WorkflowError

WORLD = World({}, is_model=lambda name: True, taken=lambda name: False)
DEFINITION = read_definition(
    "doc-qa",
    {
        "inputs": {
            "question": "last_user",
            "rules": "system",
            "documents": "texts",
            "facts": {"kind": "json", "default": []},
            "city": {"kind": "text", "default": "Ulm"},
        },
        "steps": {"answer": {"chat": "{{question}}", "model": "m"}},
        "output": "answer",
    },
    WORLD,
)
LIMITS = CallLimits(max_items=3, max_documents_bytes=40)


def chat(*messages: tuple[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in messages]}


def test_a_chat_gives_its_last_question_and_its_system_messages() -> None:
    asked = chat(
        ("system", "Be brief."),
        ("user", "Hello"),
        ("assistant", "Hi"),
        ("developer", "No lists."),
        ("user", [{"type": "text", "text": "Who"}, {"type": "text", "text": "won?"}]),
    )
    found = read_inputs(DEFINITION, asked, {"documents": ["one"]}, LIMITS)
    assert found == {
        "question": "Who\nwon?",
        "rules": "Be brief.\n\nNo lists.",
        "documents": ["one"],
        "facts": [],
        "city": "Ulm",
    }


def test_what_is_given_by_name_goes_before_the_messages() -> None:
    given = {"question": "named", "documents": [], "facts": ["a", {"b": 1}], "city": None, "rules": ""}
    found = read_inputs(DEFINITION, chat(("user", "asked")), given, LIMITS)
    assert found == {
        "question": "named",
        "rules": "",
        "documents": [],
        "facts": ["a", '{"b":1}'],
        "city": "Ulm",
    }


def test_without_a_chat_every_input_comes_by_name() -> None:
    found = read_inputs(DEFINITION, None, {"question": "q", "documents": []}, LIMITS)
    assert (found["question"], found["rules"]) == ("q", "")


@pytest.mark.parametrize(
    ("messages", "inputs", "param", "code", "status"),
    [
        (chat(("user", "q")), None, "understudy.inputs.documents", "missing_input", 400),
        (chat(("system", "s")), {"documents": []}, "understudy.inputs.question", "missing_input", 400),
        (None, {"documents": []}, "inputs.question", "missing_input", 400),
        (chat(("user", "q")), {"documents": [], "docs": []}, "understudy.inputs.docs", "unused_input", 400),
        (chat(("user", "q")), {"documents": "one"}, "understudy.inputs.documents", "invalid_input", 400),
        (chat(("user", "q")), {"documents": [1]}, "understudy.inputs.documents", "invalid_input", 400),
        (chat(("user", "q")), {"documents": [], "city": 1}, "understudy.inputs.city", "invalid_input", 400),
        (chat(("user", "q")), {"documents": ["\ud800"]}, "understudy.inputs.documents", "invalid_input", 400),
        (chat(("user", "q")), [], "understudy.inputs", "invalid_input", 400),
        (
            chat(("user", [{"type": "image_url", "image_url": {}}])),
            {"documents": []},
            "messages[0].content",
            "invalid_input",
            400,
        ),
        ({"messages": "q"}, {"documents": []}, "messages", "invalid_input", 400),
        (
            chat(("user", "q")),
            {"documents": ["a"] * 4},
            "understudy.inputs.documents",
            "too_many_items",
            400,
        ),
        (
            chat(("user", "q")),
            {"documents": ["a" * 50]},
            "understudy.inputs.documents",
            "documents_too_large",
            413,
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_input_named(
    messages: dict[str, Any] | None, inputs: Any, param: str, code: str, status: int
) -> None:
    with pytest.raises(WorkflowError) as raised:
        read_inputs(DEFINITION, messages, inputs, LIMITS)
    assert (raised.value.param, raised.value.code, raised.value.status) == (param, code, status)


def test_an_error_never_says_a_value() -> None:
    with pytest.raises(WorkflowError) as raised:
        read_inputs(DEFINITION, None, {"question": "q", "documents": ["secret" * 10]}, LIMITS)
    assert "secret" not in raised.value.message


def test_json_that_is_nested_too_deep_is_refused() -> None:
    declared = {
        "inputs": {"data": "json"},
        "steps": {"said": {"merge": ["{{data}}", "{{data}}"]}},
        "output": "said",
    }
    definition = read_definition("w", declared, World({}, lambda name: True, lambda name: False))
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(WorkflowError) as refused:
        read_inputs(definition, None, {"data": nested}, LIMITS)
    assert (refused.value.status, refused.value.code, refused.value.param) == (
        400,
        "invalid_input",
        "inputs.data",
    )
