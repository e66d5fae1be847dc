"""One request in each API, random ones, and what an engine would be sent of them."""

from __future__ import annotations

import functools
import json
import types
import typing
from collections.abc import Mapping
from typing import Any

from anthropic.types.message_create_params import (
    MessageCreateParamsNonStreaming,
    MessageCreateParamsStreaming,
)
from hypothesis import strategies as st
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params
from typing_extensions import is_typeddict

from engines.apis import Api
from engines.codecs.table import CODECS
from engines.codecs.writing import written

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be short."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Where is this?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"city":"Rome"}'},
                },
                {
                    "id": "c2",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"city":"Bern"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "c2", "content": "rain"},
        {"role": "user", "content": "And now?"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA, "strict": True},
        }
    ],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "temperature": 0.5,
    "top_p": 0.9,
    "max_completion_tokens": 2000,
    "reasoning_effort": "high",
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
    },
    "user": "u1",
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "instructions": "Be short.",
    "store": False,
    "input": [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Where is this?"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
                {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"},
            ],
        },
        {"type": "message", "role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"city":"Rome"}'},
        {"type": "function_call", "call_id": "c2", "name": "look", "arguments": '{"city":"Bern"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "function_call_output", "call_id": "c2", "output": "rain"},
        {"type": "message", "role": "user", "content": "And now?"},
    ],
    "tools": [
        {"type": "function", "name": "look", "description": "Looks.", "parameters": SCHEMA, "strict": True}
    ],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "temperature": 0.5,
    "top_p": 0.9,
    "max_output_tokens": 2000,
    "reasoning": {"effort": "high"},
    "text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}},
    "user": "u1",
}
MESSAGES: dict[str, Any] = {
    "model": "m",
    "system": "Be short.",
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Where is this?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"city": "Rome"}},
                {"type": "tool_use", "id": "c2", "name": "look", "input": {"city": "Bern"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "sunny"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "rain"},
                {"type": "text", "text": "And now?"},
            ],
        },
    ],
    "tools": [{"name": "look", "description": "Looks.", "input_schema": SCHEMA, "strict": True}],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "temperature": 0.5,
    "top_p": 0.9,
    "max_tokens": 2000,
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}},
    "metadata": {"user_id": "u1"},
}
SAME: Mapping[Api, dict[str, Any]] = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
"""One request in each API."""
_TYPES: Mapping[Api, tuple[Any, Any]] = {
    "chat": (
        completion_create_params.CompletionCreateParamsNonStreaming,
        completion_create_params.CompletionCreateParamsStreaming,
    ),
    "responses": (
        response_create_params.ResponseCreateParamsNonStreaming,
        response_create_params.ResponseCreateParamsStreaming,
    ),
    "messages": (MessageCreateParamsNonStreaming, MessageCreateParamsStreaming),
}
_BEYOND = frozenset({"reasoning_content", "top_k", "temperature", "top_p"})
"""What servers of chat completions read and OpenAI's own does not describe, and what only older models of Messages take."""


def misfits(value: Any, wanted: Any, at: str = "body") -> list[str]:
    """What of a value its type does not describe, members that it does not have included."""
    origin, given = typing.get_origin(wanted), typing.get_args(wanted)
    if is_typeddict(wanted):
        if not isinstance(value, dict):
            return [f"{at} is no object"]
        hints = _hints(wanted)
        found = [f"{at}.{name} is unknown" for name in value if name not in hints and name not in _BEYOND]
        found += [f"{at}.{name} is missing" for name in wanted.__required_keys__ if name not in value]
        return found + [
            each
            for name in value.keys() & hints.keys()
            for each in misfits(value[name], hints[name], f"{at}.{name}")
        ]
    if origin in (typing.Union, types.UnionType):
        tried = [misfits(value, each, at) for each in given]
        return min(tried, key=len)
    if origin is typing.Annotated:
        return misfits(value, given[0], at)
    if origin is typing.Literal:
        return [] if value in given else [f"{at} is {value!r}, which is none of {given}"]
    if origin is dict:
        return [] if isinstance(value, dict) else [f"{at} is no object"]
    if origin is not None or getattr(wanted, "__name__", "") == "SequenceNotStr":
        if not isinstance(value, list):
            return [f"{at} is no list"]
        return [each for i, item in enumerate(value) for each in misfits(item, given[0], f"{at}[{i}]")]
    plain = (int, float) if wanted is float else wanted
    return [] if wanted in (Any, object) or isinstance(value, plain) else [f"{at} is no {wanted}"]


@functools.cache
def _hints(wanted: Any) -> dict[str, Any]:
    return typing.get_type_hints(wanted)


def said(client: Api, body: Mapping[str, Any], engine: Api, *drops: str) -> dict[str, Any]:
    """The fields that the engine is sent, which fit its API's own types."""
    chat = CODECS[client].read(json.dumps(body).encode(), dict(body))
    fields = written(chat, engine, drops=frozenset(drops))
    assert misfits(fields, _TYPES[engine][bool(fields.get("stream"))]) == []
    return fields


# Random requests, in the canonical form that the identity is claimed of.
_TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
_NAME = st.sampled_from(["look", "find", "read"])
_IMAGE = st.sampled_from([f"data:image/png;base64,{PIXEL}", "https://example.com/a.png"])
_ARGUMENTS = st.dictionaries(_TEXT, st.integers() | _TEXT | st.none(), max_size=2)
_TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": SCHEMA, "strict": False}}
    for name in ("look", "find", "read")
]
_CHOICES: list[Any] = ["auto", "none", "required", {"type": "function", "function": {"name": "look"}}]


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def chats(draw: st.DrawFn) -> dict[str, Any]:
    """Chat completions' bodies of what all three APIs can say."""
    messages: list[dict[str, Any]] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(_TEXT)})
    called = False
    for turn in range(draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": draw(_TEXT | _parts())})
        said = draw(_TEXT | st.none())
        names = draw(st.lists(_NAME, max_size=3, unique=True)) if said else [draw(_NAME)]
        calls = [
            {
                "id": f"call_{turn}_{name}",
                "type": "function",
                "function": {"name": name, "arguments": _compact(draw(_ARGUMENTS))},
            }
            for name in names
        ]
        called = called or bool(calls)
        messages.append({"role": "assistant", "content": said} | ({"tool_calls": calls} if calls else {}))
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": draw(_TEXT)} for call in calls]
    if messages[-1]["role"] != "tool":
        messages.append({"role": "user", "content": draw(_TEXT)})
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    fields = _optional(
        temperature=st.floats(0, 1),
        top_p=st.floats(0, 1),
        reasoning_effort=st.sampled_from(["none", "low", "medium", "high", "xhigh", "max"]),
        response_format=st.just(form),
        user=_TEXT,
        service_tier=st.sampled_from(["auto", "default"]),
    )
    body = {"model": "m", "messages": messages, "max_completion_tokens": draw(st.integers(1, 9999))}
    body |= draw(fields)
    if called or draw(st.booleans()):
        body |= {"tools": _TOOLS, "tool_choice": draw(st.sampled_from(_CHOICES))}
        if body["tool_choice"] != "none" and draw(st.booleans()):
            body["parallel_tool_calls"] = False
    if draw(st.booleans()):
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


@st.composite
def _parts(draw: st.DrawFn) -> list[dict[str, Any]]:
    image = {"type": "image_url", "image_url": {"url": draw(_IMAGE)}}
    return [{"type": "text", "text": draw(_TEXT)}, image]


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@st.composite
def own_chats(draw: st.DrawFn) -> dict[str, Any]:
    """The same, and what only chat completions say."""
    fields = _optional(
        seed=st.integers(0, 9),
        stop=st.lists(_TEXT, min_size=1, max_size=3),
        frequency_penalty=st.floats(-2, 2),
        presence_penalty=st.floats(-2, 2),
        logit_bias=st.just({"1": 5}),
        n=st.integers(1, 3),
        logprobs=st.booleans(),
        top_logprobs=st.integers(0, 5),
        verbosity=st.sampled_from(["low", "high"]),
        metadata=st.just({"a": "b"}),
        prompt_cache_key=_TEXT,
        store=st.booleans(),
        modalities=st.just(["text"]),
    )
    body = draw(chats()) | draw(fields)
    thought = draw(_TEXT | st.none())
    for message in body["messages"]:
        if thought and message["role"] == "assistant":
            message["reasoning_content"] = thought
    if "tools" in body and draw(st.booleans()):
        grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}}
        custom = {"type": "custom", "custom": {"name": "patch", "description": "d", "format": grammar}}
        call = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": draw(_TEXT)}}
        body["tools"] = [*body["tools"], custom]
        body["messages"] += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "done"},
        ]
    return body


@st.composite
def own_responses(draw: st.DrawFn) -> dict[str, Any]:
    """Responses' bodies: of what all can say, and of what only they do."""
    body = said("chat", draw(chats()), "responses")
    fields = _optional(
        metadata=st.just({"a": "b"}),
        prompt_cache_key=_TEXT,
        include=st.just(["reasoning.encrypted_content"]),
        truncation=st.sampled_from(["auto", "disabled"]),
        max_tool_calls=st.integers(1, 3),
    )
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    place = next((i for i, item in enumerate(body["input"]) if item["type"] == "function_call"), None)
    if place is not None and body["input"][place - 1].get("role") != "assistant" and draw(st.booleans()):
        body["input"].insert(place, reasoning)
    file = {"type": "input_file", "file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}
    if draw(st.booleans()):
        body["input"].append({"type": "message", "role": "developer", "content": [file]})
    if "tools" in body and draw(st.booleans()):
        grammar = {"type": "grammar", "syntax": "regex", "definition": "a+"}
        body["tools"] = [*body["tools"], {"type": "custom", "name": "patch", "format": grammar}]
        body["input"] += [
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": draw(_TEXT)},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
        ]
    return body | draw(fields)


_CACHED = {"cache_control": {"type": "ephemeral"}}
_PDF = {"type": "base64", "media_type": "application/pdf", "data": "AA=="}
_DOCUMENTS = [
    {"type": "document", "source": _PDF, "title": "t", "context": "c", "citations": {"enabled": True}},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}, **_CACHED},
    {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
    {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "t"}]}},
]


@st.composite
def own_messages(draw: st.DrawFn) -> dict[str, Any]:
    """Messages' bodies: of what all can say, and of what only they do."""
    body = said("chat", draw(chats()), "messages")
    fields = _optional(
        top_k=st.integers(1, 9),
        stop_sequences=st.lists(_TEXT, min_size=1, max_size=3),
        thinking=st.sampled_from(
            [{"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive", "display": "omitted"}]
        ),
        speed=st.just("fast"),
    )
    body |= draw(fields)
    if isinstance(body.get("system"), str) and draw(st.booleans()):
        body["system"] = [{"type": "text", "text": body["system"], **_CACHED}]
    for message in body["messages"]:
        blocks = message["content"]
        if isinstance(blocks, str):
            continue
        for block in blocks:
            if block["type"] == "tool_result" and draw(st.booleans()):
                source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
                block |= {"is_error": True, "content": [{"type": "image", "source": source}], **_CACHED}
        if message["role"] == "assistant" and draw(st.booleans()):
            thought = {"type": "thinking", "thinking": draw(_TEXT), "signature": "s"}
            blocks[:0] = [thought, {"type": "redacted_thinking", "data": "r"}]
        elif message["role"] == "user":
            blocks += draw(st.lists(st.sampled_from(_DOCUMENTS), max_size=2))
    for tool in body.get("tools", ()):
        if draw(st.booleans()):
            tool |= _CACHED
    return body
