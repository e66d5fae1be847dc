"""Bodies of `/v1/responses` said as chat completions, and examples among their items."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from engines.chat import ChatRequest
from engines.codecs.response_request import (
    input_items,
    read_request,
    state_of,
    stored_ids,
    with_messages,
)
from engines.errors import RequestError

SHOWN = [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": "A."}]


def read(**fields: Any) -> ChatRequest:
    return read_request(orjson.dumps(fields), fields)


def test_it_says_what_a_chat_completion_would() -> None:
    chat = read(
        model="m",
        instructions="Be brief.",
        input=[
            {"role": "developer", "content": "In French."},
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Salut."}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "fine"},
        ],
        text={"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"},
        tools=[{"type": "function", "name": "f", "parameters": {}}],
        max_output_tokens=16,
        reasoning={"effort": "low"},
        stream=True,
    )
    assert (chat.api, chat.model, chat.stream, chat.state) == ("responses", "m", True, "")
    assert [m["role"] for m in chat.messages] == [
        "system",
        "developer",
        "user",
        "assistant",
        "assistant",
        "tool",
    ]
    assert chat.messages[2]["content"] == [{"type": "text", "text": "Hi"}]
    assert chat.messages[4]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    said = {
        name: chat.fields[name] for name in ("response_format", "verbosity", "max_completion_tokens", "tools")
    }
    assert said == {
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
        "verbosity": "low",
        "max_completion_tokens": 16,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    }
    assert "input" not in chat.fields and chat.own_fields["input"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": 1}, "model"),
        ({"input": 1}, "input"),
        ({"input": ["x"]}, "input[0]"),
        ({"stream": "yes"}, "stream"),
        ({"instructions": []}, "instructions"),
    ],
)
def test_what_has_the_wrong_type_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as refused:
        read(**fields)
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"input": "Hi"}, ""),
        ({}, "input"),
        ({"input": "Hi", "previous_response_id": "r"}, "previous_response_id"),
        ({"input": "Hi", "conversation": {"id": "c"}}, "conversation"),
        ({"input": "Hi", "background": True}, "background"),
        ({"input": "Hi", "background": False, "previous_response_id": None}, ""),
        ({"input": "Hi", "prompt": {"id": "p"}}, "prompt"),
        ({"input": "Hi", "tools": [{"type": "web_search"}]}, "tools"),
        ({"input": "Hi", "tools": [{"type": "function", "name": "f"}]}, ""),
        ({"input": [{"type": "reasoning", "id": "rs"}]}, "input"),
        ({"input": [{"id": "msg"}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "x"}]}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}]}, ""),
        (
            {
                "input": [
                    {"type": "function_call_output", "output": [{"type": "input_image", "file_id": "f"}]}
                ]
            },
            "input",
        ),
    ],
)
def test_what_depends_on_more_than_the_body_is_named(fields: dict[str, Any], state: str) -> None:
    assert state_of(fields) == state


def test_every_id_of_something_stored_is_found() -> None:
    fields = {
        "previous_response_id": "resp_1",
        "conversation": {"id": "conv_1"},
        "input": [
            {"type": "item_reference", "id": "msg_1"},
            {"type": "reasoning", "id": "rs_1"},
            {"type": "message", "id": "msg_2", "role": "user", "content": "Hi"},
        ],
    }
    assert dict(stored_ids(fields)) == {
        "previous_response_id": "resp_1",
        "conversation": "conv_1",
        "input[0].id": "msg_1",
        "input[1].id": "rs_1",
    }


def test_examples_are_put_behind_the_leading_instructions() -> None:
    system = {"role": "system", "content": "In French."}
    question = {"role": "user", "content": "Hi"}
    chat = read(model="m", instructions="Be brief.", input=[system, question], top_p=0.5)
    messages = [*chat.messages[:2], *SHOWN, *chat.messages[2:]]
    assert with_messages(chat, messages) == {
        "model": "m",
        "instructions": "Be brief.",
        "top_p": 0.5,
        "input": [system, *SHOWN, question],
    }
    text = read(model="m", input="Hi")
    assert with_messages(text, [*SHOWN, *text.messages])["input"] == [*SHOWN, question]


def test_other_messages_than_its_own_replace_the_input() -> None:
    chat = read(model="m", instructions="Be brief.", input="Hi")
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    made = with_messages(
        chat,
        [
            {"role": "user", "content": "Ho"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "fine"},
        ],
    )
    assert made == {
        "model": "m",
        "input": [
            {"role": "user", "content": "Ho"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "fine"},
        ],
    }
    assert read(**made).messages[1]["tool_calls"][0]["id"] == "c"


def test_a_text_is_one_item() -> None:
    assert input_items({"input": "Hi"})[0]["content"] == [{"type": "input_text", "text": "Hi"}]
    assert input_items({}) == []
