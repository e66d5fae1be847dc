"""A body of `/v1/messages` as policies and keys see it, and examples put among its messages."""

from __future__ import annotations

from typing import Any

import pytest

from engines.chat import ChatRequest
from engines.codecs.message_request import read_request, state_of, with_messages
from engines.errors import RequestError
from router.digest import carries_tools, in_tool_loop, only_text

ASKED = {"role": "user", "content": "Six times seven?"}


def read(**fields: Any) -> ChatRequest:
    return read_request(b"{}", {"model": "m", "max_tokens": 9, "messages": [ASKED], **fields})


def test_it_is_said_as_a_chat_completion() -> None:
    tool = {"name": "weather", "description": "Of a city", "input_schema": {"type": "object"}}
    chat = read(
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        stop_sequences=["END"],
        temperature=0,
        tools=[tool],
        stream=True,
    )
    assert chat.messages == [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}, ASKED]
    assert (chat.api, chat.model, chat.stream, chat.state) == ("messages", "m", True, "")
    assert chat.fields["stop"] == ["END"] and chat.fields["temperature"] == 0
    assert chat.fields["tools"][0]["function"]["name"] == "weather" and carries_tools(chat)
    assert chat.own_fields["tools"] == [tool]


def test_what_is_no_text_is_not_taken_for_text() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
    assert only_text(read().messages) and not only_text(
        read(messages=[ASKED | {"content": [image]}]).messages
    )
    used = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "w", "input": {}}]}
    said = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "Rain"}]}
    loop = read(messages=[ASKED, used, said]).messages
    assert in_tool_loop(loop[1:2]) and in_tool_loop(loop[2:]) and not in_tool_loop(loop[:1])
    assert loop[2]["content"] == [{"type": "text", "text": "Rain"}]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": 3}, "model"),
        ({"messages": "hi"}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"system": 3}, "system"),
        ({"stream": "yes"}, "stream"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as refused:
        read(**fields)
    assert (refused.value.status, refused.value.param) == (400, param)


def test_examples_come_behind_the_system_prompt() -> None:
    chat = read(system="Be brief.")
    example = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]
    fields = with_messages(chat, [chat.messages[0], *example, chat.messages[1]])
    assert fields["system"] == "Be brief." and fields["messages"] == [*example, ASKED]
    assert with_messages(chat, chat.messages) == chat.own_fields


def test_other_messages_are_said_in_its_words() -> None:
    fields = with_messages(read(system="Old"), [{"role": "system", "content": "New"}, ASKED, dict(ASKED)])
    assert fields["system"] == "New" and fields["messages"] == [ASKED, ASKED]
    assert "system" not in with_messages(read(system="Old"), [ASKED])


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, ""),
        ({"tools": [{"name": "w", "input_schema": {}}, {"type": "custom", "name": "x"}]}, ""),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools"),
        ({"container": "c-1"}, "container"),
        ({"mcp_servers": [{"url": "https://x"}]}, "mcp_servers"),
        (
            {"messages": [{"content": [{"type": "document", "source": {"type": "file", "file_id": "f"}}]}]},
            "messages",
        ),
        (
            {"messages": [{"content": [{"type": "tool_result", "content": [{"source": {"file_id": "f"}}]}]}]},
            "messages",
        ),
        ({"messages": [{"content": [{"type": "container_upload", "file_id": "f"}]}]}, "messages"),
    ],
)
def test_what_the_engine_holds_is_named(fields: dict[str, Any], state: str) -> None:
    assert state_of(fields) == state
