"""Tests of what clients really send, said in the other APIs: their SDKs' requests, second turns, and two agents' shapes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import anthropic
import httpx2 as httpx
import openai
import pytest
from openai.lib._tools import pydantic_function_tool
from pydantic import BaseModel

from engines.apis import Api
from engines.codecs.neutral import NotTranslatable
from tests.engines.codecs.requests import SCHEMA, said

_SAID = '{"kind":"sun","degrees":null}'
_USAGE = {"input_tokens": 1, "output_tokens": 1}
_COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "annotations": [],
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "Look", "arguments": '{"city":"Rome"}'},
                    }
                ],
            },
        }
    ],
}
_RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": _SAID, "annotations": [], "logprobs": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "status": "completed",
            "call_id": "c1",
            "name": "Look",
            "arguments": '{"city":"Rome"}',
        },
    ],
}
_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": _USAGE,
    "content": [
        {"type": "text", "text": _SAID, "citations": None},
        {"type": "tool_use", "id": "c1", "name": "Look", "input": {"city": "Rome"}},
    ],
}


class Look(BaseModel):
    """Looks at a city."""

    city: str


class Answer(BaseModel):
    """What is said in the end."""

    kind: Literal["sun", "rain"]
    degrees: float | None


class Upstream:
    """Answers every request with the same, and keeps the bodies."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._answer = answer

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Take a request."""
        self.bodies.append(json.loads(request.content))
        return httpx.Response(200, json=self._answer)

    @property
    def client(self) -> httpx.Client:
        """One that asks nobody else."""
        return httpx.Client(transport=httpx.MockTransport(self))


def chat_turns() -> list[dict[str, Any]]:
    """Two turns with tools by the openai package, the second with its own answer in it."""
    upstream = Upstream(_COMPLETION)
    client = openai.OpenAI(api_key="k", base_url="http://x/v1", http_client=upstream.client)
    messages: list[Any] = [
        {"role": "developer", "content": "Be short."},
        {"role": "user", "content": "Rome?"},
    ]
    asked: Any = {"model": "m", "tools": [pydantic_function_tool(Look)], "response_format": Answer}
    told = client.chat.completions.parse(messages=messages, reasoning_effort="low", **asked)
    messages += [told.choices[0].message, {"role": "tool", "tool_call_id": "c1", "content": "sunny"}]
    client.chat.completions.parse(messages=messages, seed=openai.omit, **asked)
    return upstream.bodies


def responses_turns() -> list[dict[str, Any]]:
    """The same by its other API, stateless."""
    upstream = Upstream(_RESPONSE)
    client = openai.OpenAI(api_key="k", base_url="http://x/v1", http_client=upstream.client)
    given: list[Any] = [{"role": "user", "content": "Rome?"}]
    tool: Any = openai.pydantic_function_tool(Look)
    flat = {"type": "function", **tool["function"]}
    asked: Any = {"model": "m", "tools": [flat], "text_format": Answer, "instructions": "Be short."}
    include: Any = ["reasoning.encrypted_content"]
    told = client.responses.parse(
        input=given, store=False, include=include, reasoning={"effort": "low"}, **asked
    )
    given += told.output
    given.append({"type": "function_call_output", "call_id": "c1", "output": "sunny"})
    client.responses.parse(input=given, store=False, **asked)
    return upstream.bodies


def messages_turns() -> list[dict[str, Any]]:
    """The same by the anthropic package."""
    upstream = Upstream(_MESSAGE)
    client = anthropic.Anthropic(api_key="k", base_url="http://x", http_client=upstream.client)
    messages: list[Any] = [{"role": "user", "content": "Rome?"}]
    system: Any = [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}]
    tool: Any = {"name": "Look", "description": "Looks.", "input_schema": SCHEMA, "strict": True}
    asked: Any = {"model": "m", "max_tokens": 100, "system": system, "tools": [tool], "output_format": Answer}
    told = client.messages.parse(messages=messages, thinking={"type": "adaptive"}, **asked)
    messages += [
        {"role": "assistant", "content": told.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}]},
    ]
    client.messages.parse(messages=messages, **asked)
    return upstream.bodies


@pytest.mark.parametrize(
    ("client", "turns", "engine"),
    [
        ("chat", chat_turns, "responses"),
        ("chat", chat_turns, "messages"),
        ("responses", responses_turns, "chat"),
        ("responses", responses_turns, "messages"),
        ("messages", messages_turns, "chat"),
        ("messages", messages_turns, "responses"),
    ],
)
def test_two_turns_with_a_tool_and_a_schema_as_an_sdk_sends_them(
    client: Api, turns: Callable[[], list[dict[str, Any]]], engine: Api
) -> None:
    first, second = (said(client, body, engine) for body in turns())
    chat = [said(engine, body, "chat") for body in (first, second)]
    assert [message["role"] for message in chat[0]["messages"]] == ["system", "user"]
    assert chat[0]["messages"] == chat[1]["messages"][:2]
    call, result = chat[1]["messages"][2:]
    function = {"name": "Look", "arguments": '{"city":"Rome"}'}
    assert call["tool_calls"] == [{"id": "c1", "type": "function", "function": function}]
    assert call["content"] == (None if client == "chat" else _SAID)
    assert result == {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
    for body in chat:
        assert body["tools"][0]["function"]["name"] == "Look"
        schema = body["response_format"]["json_schema"]["schema"]
        assert set(schema["properties"]) == {"kind", "degrees"}


CODEX: dict[str, Any] = {
    "model": "gpt-5-codex",
    "instructions": "You are Codex.",
    "input": [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "<permissions>"}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
        {
            "type": "message",
            "role": "assistant",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "I patch."}],
        },
        {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "Done"},
    ],
    "tools": [
        {"type": "function", "name": "shell", "description": "Runs.", "strict": False, "parameters": SCHEMA},
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Patches.",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
        },
        {"type": "web_search", "external_web_access": False},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "session",
    "text": {"verbosity": "medium"},
    "client_metadata": {"x": "y"},
}


def test_codex_on_other_engines_needs_what_its_operator_lets_it_drop() -> None:
    for engine in ("chat", "messages"):
        with pytest.raises(NotTranslatable):
            said("responses", CODEX, engine, "grammar")
    chat = said("responses", CODEX, "chat", "grammar", "web_search")
    roles = [message["role"] for message in chat["messages"]]
    assert roles == ["system", "user", "user", "assistant", "tool", "assistant", "tool"]
    assert [tool["function"]["name"] for tool in chat["tools"]] == ["shell", "apply_patch"]
    assert (chat["stream_options"], chat["reasoning_effort"]) == ({"include_usage": True}, "medium")
    messages = said("responses", CODEX, "messages", "grammar", "web_search")
    assert [message["role"] for message in messages["messages"]] == ["user", "assistant"] * 2 + ["user"]
    assert messages["max_tokens"] == 32_000


CLAUDE_CODE: dict[str, Any] = {
    "model": "claude-sonnet-5",
    "max_tokens": 32_000,
    "temperature": 1,
    "system": [
        {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Rules.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [{"type": "text", "text": "<system-reminder>"}, {"type": "text", "text": "Fix."}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "text", "text": "I read."},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"city": "a"}},
                {"type": "tool_use", "id": "t2", "name": "Read", "input": {"city": "b"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "1: a"},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "content": [{"type": "text", "text": "No file."}],
                    "is_error": True,
                    "cache_control": {"type": "ephemeral"},
                },
            ],
        },
    ],
    "tools": [{"name": "Read", "description": "Reads.", "input_schema": {"$schema": "x", **SCHEMA}}],
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "metadata": {"user_id": '{"device_id":"d","session_id":"s"}'},
    "stream": True,
}


def test_claude_code_needs_nothing_dropped() -> None:
    chat = said("messages", CLAUDE_CODE, "chat")
    assert [message["role"] for message in chat["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
    ]
    assert chat["messages"][2]["reasoning_content"] == "Hm."
    assert chat["max_completion_tokens"] == 32_000
    responses = said("messages", CLAUDE_CODE, "responses")
    kinds = [item["type"] for item in responses["input"]]
    calls = ["function_call"] * 2 + ["function_call_output"] * 2
    assert kinds == ["message", "message", "reasoning", "message", *calls]
    assert responses["reasoning"] == {"effort": "high"}
