"""Tests of requests said in another API's words."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.apis import Api
from engines.codecs.custom_tools import custom_names, input_of, namespaced
from engines.codecs.neutral import FIELDS, WRITTEN, NotTranslatable
from engines.codecs.table import CODECS
from engines.codecs.thinking import sealed
from engines.codecs.writing import written
from engines.errors import RequestError
from tests.engines.codecs.requests import (
    CHAT,
    MESSAGES,
    PIXEL,
    SAME,
    SCHEMA,
    chats,
    own_chats,
    own_messages,
    own_responses,
    said,
)


@pytest.mark.parametrize("engine", WRITTEN)
@pytest.mark.parametrize("client", WRITTEN)
def test_the_same_request_in_each_api_is_said_in_each_other(client: Api, engine: Api) -> None:
    assert said(client, SAME[client], engine) == SAME[engine]


def test_what_cannot_be_said_is_refused_by_name() -> None:
    with pytest.raises(NotTranslatable) as refused:
        said("chat", {**CHAT, "seed": 1}, "messages")
    error = refused.value
    assert (error.status, error.code, error.param) == (400, "not_translatable", "seed")
    assert "seed" in error.message and "engines.NAME.drops: [seed]" in error.message
    assert said("chat", {**CHAT, "seed": 1}, "messages", "seed") == MESSAGES


@pytest.mark.parametrize(
    ("api", "bodies"), [("chat", own_chats()), ("responses", own_responses()), ("messages", own_messages())]
)
@given(data=st.data())
def test_read_and_written_in_the_same_api_a_request_is_the_same(
    api: Api, bodies: st.SearchStrategy[dict[str, Any]], data: st.DataObject
) -> None:
    """Claimed of requests in the form that is written: `max_completion_tokens`, a list of `stop`, a stream that tells usage;
    a text alone as a string; in the Responses API items without ids, `store: false`, and one that instructs first as
    `instructions`; in Messages what tools returned before the rest, and instructions in `system`."""
    body = data.draw(bodies)
    assert said(api, body, api) == body


@pytest.mark.parametrize("engine", ["responses", "messages"])
@given(body=chats())
def test_what_all_apis_can_say_is_the_same_after_a_way_through_another(
    engine: Api, body: dict[str, Any]
) -> None:
    assert said(engine, said("chat", body, engine), "chat") == body


_HOSTED = {"type": "web_search"}
_AUDIO = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
_FILE = {"type": "file", "file": {"file_id": "file-1"}}
_PLAIN: dict[Api, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "responses": {"model": "m", "input": "Hi"},
    "messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
}


def _asks(content: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content, **more}]}


def _items(*items: dict[str, Any]) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": "Hi"}, *items]}


REFUSED: list[tuple[Api, dict[str, Any], str, str, Api]] = [
    *(
        ("chat", {name: value}, name, name, engine)
        for engine in ("responses", "messages")
        for name, value in (
            ("seed", 0),
            ("frequency_penalty", 0.5),
            ("presence_penalty", 0.5),
            ("logit_bias", {"1": 5}),
            ("n", 2),
            ("modalities", ["text", "audio"]),
            ("audio", {"voice": "a"}),
            ("web_search_options", {"search_context_size": "low"}),
            ("functions", [{"name": "f"}]),
            ("chat_template_kwargs", {"thinking": True}),
            ("min_p", 0),
        )
    ),
    ("chat", {"stop": "x"}, "stop", "stop", "responses"),
    ("chat", {"top_k": 5}, "top_k", "top_k", "responses"),
    ("chat", {"logprobs": True}, "logprobs", "logprobs", "messages"),
    ("chat", {"verbosity": "low"}, "verbosity", "verbosity", "messages"),
    ("chat", {"temperature": 1.5}, "temperature", "temperature", "messages"),
    ("chat", {"service_tier": "flex"}, "service_tier", "service_tier", "messages"),
    ("chat", {"moderation": {"model": "m"}}, "moderation", "moderation", "messages"),
    ("chat", {"response_format": {"type": "json_object"}}, "response_format", "response_format", "messages"),
    ("chat", {"tools": [_HOSTED]}, "web_search", "tools", "messages"),
    ("chat", _asks([_AUDIO]), "input_audio", "messages", "responses"),
    ("chat", _asks([_AUDIO]), "input_audio", "messages", "messages"),
    ("chat", _asks([_FILE]), "file_id", "messages", "responses"),
    ("chat", _asks([_FILE]), "file_id", "messages", "messages"),
    ("chat", _asks([{"type": "video_url"}]), "video_url", "messages", "responses"),
    ("chat", _asks([], name="Ann"), "name", "messages", "messages"),
    ("chat", {"messages": [{"role": "function", "content": "a"}]}, "function", "messages", "messages"),
    *(
        ("responses", fields, name, name.partition(".")[0] if param is None else param, engine)
        for engine in ("chat", "messages")
        for fields, name, param in (
            ({"previous_response_id": "resp_1"}, "previous_response_id", None),
            ({"conversation": "conv_1"}, "conversation", None),
            ({"background": True}, "background", None),
            ({"prompt": {"id": "p"}}, "prompt", None),
            ({"context_management": [{"type": "compaction"}]}, "context_management", None),
            ({"truncation": "auto"}, "truncation", None),
            ({"reasoning": {"mode": "pro"}}, "reasoning.mode", "reasoning.mode"),
            ({"tools": [_HOSTED]}, "web_search", "tools"),
            ({"tools": [{"type": "tool_search"}]}, "tool_search", "tools"),
            ({"tools": [{"type": "function", "name": "f", "defer_loading": True}]}, "defer_loading", "tools"),
            (
                {"tools": [{"type": "custom", "name": "f", "allowed_callers": ["direct"]}]},
                "allowed_callers",
                "tools",
            ),
            ({"tool_choice": {"type": "web_search"}}, "tool_choice", None),
            (_items({"type": "item_reference", "id": "i"}), "item_reference", "input"),
            (_items({"type": "web_search_call", "id": "i"}), "web_search_call", "input"),
            (_items({"type": "compaction", "encrypted_content": "x"}), "compaction", "input"),
            (_items({"type": "reasoning", "id": "i", "summary": []}), "reasoning", "input"),
            (
                _items({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}),
                "file_id",
                "input",
            ),
        )
    ),
    ("responses", {"text": {"verbosity": "low"}}, "text.verbosity", "text.verbosity", "messages"),
    *(
        ("messages", fields, name, param, engine)
        for engine in ("chat", "responses")
        for fields, name, param in (
            ({"container": "c"}, "container", "container"),
            ({"mcp_servers": [{"type": "url"}]}, "mcp_servers", "mcp_servers"),
            ({"inference_geo": "us"}, "inference_geo", "inference_geo"),
            ({"speed": "fast"}, "speed", "speed"),
            (
                {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
                "context_management",
                "context_management",
            ),
            ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "bash_20250124", "tools"),
            (
                {"tools": [{"name": "n", "input_schema": {}, "defer_loading": True}]},
                "defer_loading",
                "tools",
            ),
            (_asks([{"type": "search_result"}]), "search_result", "messages"),
            (_asks([{"type": "image", "source": {"type": "file", "file_id": "f"}}]), "file_id", "messages"),
            (
                _asks([{"type": "document", "source": {"type": "text"}, "citations": {"enabled": True}}]),
                "citations",
                "messages",
            ),
            (
                {
                    "messages": [
                        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}
                    ]
                },
                "redacted_thinking",
                "messages",
            ),
        )
    ),
    ("messages", {"stop_sequences": ["x"]}, "stop_sequences", "stop_sequences", "responses"),
    ("messages", {"top_k": 5}, "top_k", "top_k", "responses"),
    (
        "messages",
        _asks([{"type": "document", "source": {"type": "url", "url": "u"}}]),
        "file_url",
        "messages",
        "chat",
    ),
]


@pytest.mark.parametrize(("client", "fields", "name", "param", "engine"), REFUSED)
def test_each_of_these_is_refused_by_its_name_and_left_out_where_that_is_allowed(
    client: Api, fields: dict[str, Any], name: str, param: str, engine: Api
) -> None:
    body = {**_PLAIN[client], **fields}
    with pytest.raises(NotTranslatable) as refused:
        said(client, body, engine)
    assert (refused.value.param, refused.value.code) == (param, "not_translatable")
    assert f"engines.NAME.drops: [{name}]" in refused.value.message
    said(client, body, engine, name)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("engine", WRITTEN)
@pytest.mark.parametrize("client", WRITTEN)
@given(data=st.data())
def test_whatever_stands_in_a_body_it_is_said_or_refused(
    client: Api, engine: Api, data: st.DataObject
) -> None:
    body = json.loads(json.dumps(SAME[client]))
    for _ in range(data.draw(st.integers(1, 2))):
        holder: Any = body
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            key = data.draw(st.sampled_from(keys))
            if not isinstance(holder[key], dict | list) or not holder[key] or data.draw(st.booleans()):
                break
            holder = holder[key]
        holder[key] = data.draw(_JSON)
    with contextlib.suppress(RequestError):
        written(CODECS[client].read(b"", body), engine)


def _of_messages(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 2000, "messages": list(messages), **fields}


def test_what_a_tool_returned_beside_text_follows_its_results_in_a_chat() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    uses: list[Any] = [{"type": "tool_use", "id": id, "name": "look", "input": {}} for id in ("c1", "c2")]
    results = [
        {"type": "tool_result", "tool_use_id": "c1", "content": [image]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "no", "is_error": True},
    ]
    told = said(
        "messages",
        _of_messages(
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": uses},
            {"role": "user", "content": [*results, {"type": "text", "text": "And?"}]},
        ),
        "chat",
    )["messages"]
    assert [message["role"] for message in told] == ["user", "assistant", "tool", "tool", "user"]
    assert told[2]["content"] == "What it returned is in the message that follows."
    assert told[3]["content"] == [{"type": "text", "text": "Error:"}, {"type": "text", "text": "no"}]
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    assert told[4]["content"] == [
        {"type": "text", "text": "Returned by c1:"},
        url,
        {"type": "text", "text": "And?"},
    ]


def test_what_instructs_first_is_one_message_and_later_instructions_stay_in_their_place() -> None:
    body = {
        "model": "m",
        "instructions": "A",
        "input": [
            {"role": "developer", "content": "B"},
            {"role": "user", "content": "Hi"},
            {"role": "developer", "content": "C"},
        ],
    }
    assert said("responses", body, "chat")["messages"] == [
        {"role": "system", "content": "A\n\nB"},
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "<system>\nC\n</system>"},
    ]
    messages = said("responses", body, "messages")
    assert [block["text"] for block in messages["system"]] == ["A", "B"]
    assert [block["text"] for block in messages["messages"][0]["content"]] == [
        "Hi",
        "<system>\nC\n</system>",
    ]
    only = {"model": "m", "messages": [{"role": "system", "content": "A"}]}
    assert said("chat", only, "messages")["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "<system>\nA\n</system>"}]}
    ]


def test_a_result_stands_behind_its_call_whatever_was_said_meanwhile() -> None:
    body = {
        "model": "m",
        "input": [
            {"role": "user", "content": "Hi"},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"role": "user", "content": "Wait"},
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
        ],
    }
    roles = [message["role"] for message in said("responses", body, "chat")["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]
    blocks = said("responses", body, "messages")["messages"][-1]["content"]
    assert [block["type"] for block in blocks] == ["tool_result", "text"]


def test_arguments_that_are_no_object_are_refused_where_an_object_is_wanted() -> None:
    body = json.loads(json.dumps(CHAT))
    body["messages"][2]["tool_calls"][0]["function"]["arguments"] = '{"city":'
    with pytest.raises(NotTranslatable, match="arguments"):
        said("chat", body, "messages")
    assert said("chat", body, "responses")


def test_thinking_is_said_as_text_and_by_who_signed_it() -> None:
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    turn = {"role": "assistant", "content": [signed, {"type": "text", "text": "Yes."}]}
    body = _of_messages({"role": "user", "content": "Is it?"}, turn, {"role": "user", "content": "Sure?"})
    chat = said("messages", body, "chat")["messages"][1]
    assert chat == {"role": "assistant", "reasoning_content": "Hm.", "content": "Yes."}
    assert "reasoning_content" not in said("messages", body, "chat", "thinking")["messages"][1]
    reasoning = said("messages", body, "responses")["input"][1]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert [each["type"] for each in said("messages", body, "responses", "thinking")["input"]] == [
        "message"
    ] * 3
    # Unsigned thinking is no thinking to Anthropic.
    with pytest.raises(NotTranslatable, match="reasoning_content"):
        said("chat", {"model": "m", "messages": [chat]}, "messages")
    assert said("chat", {"model": "m", "messages": [chat]}, "messages", "thinking")["messages"] == [
        {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}
    ]
    # A client that kept the blocks has them sent again.
    kept = {"role": "assistant", "content": "Yes.", "thinking_blocks": [signed]}
    assert said("chat", {"model": "m", "messages": [kept]}, "messages")["messages"] == [turn]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
    ],
)
def test_a_reasoning_item_keeps_a_block_of_messages(block: dict[str, Any]) -> None:
    summary = [{"type": "summary_text", "text": block["thinking"]}] if "thinking" in block else []
    item = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": sealed(block)}
    body = {"model": "m", "input": [{"role": "user", "content": "Hi"}, item]}
    assert said("responses", body, "messages")["messages"][1] == {"role": "assistant", "content": [block]}


def test_custom_tools_are_functions_where_there_are_only_functions() -> None:
    tool = {"type": "custom", "name": "patch", "description": "Patches."}
    body = {
        "model": "m",
        "tools": [tool],
        "tool_choice": {"type": "custom", "name": "patch"},
        "input": [
            {"role": "user", "content": "Patch."},
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "+ä"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
        ],
    }
    chat = said("responses", body, "chat")
    schema = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    function = {"name": "patch", "description": "Patches.", "parameters": schema}
    assert chat["tools"] == [{"type": "function", "function": function}]
    assert chat["tool_choice"] == {"type": "function", "function": {"name": "patch"}}
    assert chat["messages"][1]["tool_calls"][0]["function"] == {
        "name": "patch",
        "arguments": '{"input":"+ä"}',
    }
    assert input_of('{"input":"+ä"}') == "+ä"
    messages = said("responses", body, "messages")
    assert messages["tool_choice"] == {"type": "tool", "name": "patch"}
    assert messages["messages"][1]["content"][0]["input"] == {"input": "+ä"}
    assert custom_names(CODECS["responses"].read(b"", body)) == {"patch"}
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}
    bound = {**body, "tools": [{**tool, "format": grammar}]}
    with pytest.raises(NotTranslatable, match="grammar"):
        said("responses", bound, "chat")
    described = said("responses", bound, "chat", "grammar")["tools"][0]["function"]["description"]
    assert described == "Patches.\n\nThe input follows this lark grammar:\nstart: /a/"


def test_tools_of_a_namespace_are_functions_with_its_name_before_theirs() -> None:
    tools = [
        {"type": "function", "name": "find", "description": "Finds.", "parameters": SCHEMA, "strict": False},
        {"type": "custom", "name": "js"},
    ]
    body = {
        "model": "m",
        "store": False,
        "tools": [{"type": "namespace", "name": "mcp__x__", "description": "X.", "tools": tools}],
        "input": [
            {"type": "message", "role": "user", "content": "Find."},
            {
                "type": "function_call",
                "call_id": "c",
                "name": "find",
                "arguments": "{}",
                "namespace": "mcp__x__",
            },
            {"type": "function_call_output", "call_id": "c", "output": "done"},
        ],
    }
    assert said("responses", body, "responses") == body
    chat = said("responses", body, "chat")
    functions = [tool["function"] for tool in chat["tools"]]
    assert [function["name"] for function in functions] == ["mcp__x__find", "mcp__x__js"]
    assert functions[0]["description"] == "X.\n\nFinds."
    assert chat["messages"][1]["tool_calls"][0]["function"] == {"name": "mcp__x__find", "arguments": "{}"}
    messages = said("responses", body, "messages")
    assert [tool["name"] for tool in messages["tools"]] == ["mcp__x__find", "mcp__x__js"]
    assert messages["messages"][1]["content"][0]["name"] == "mcp__x__find"
    read = CODECS["responses"].read(b"", body)
    assert namespaced(read) == {"mcp__x__find": ("mcp__x__", "find"), "mcp__x__js": ("mcp__x__", "js")}
    assert custom_names(read) == {"mcp__x__js"}
    # A call of one comes back as one of the namespace.
    saying = CODECS["responses"].saying(read, streams=False)
    saying.begin()
    saying.call("c1", "mcp__x__find")
    saying.arguments("{}")
    saying.call("c2", "mcp__x__js")
    saying.arguments('{"input":"1+1"}')
    saying.end("tool_calls")
    found, script = saying.whole()["output"]
    assert (found["name"], found["namespace"], found["arguments"]) == ("find", "mcp__x__", "{}")
    assert (script["name"], script["namespace"], script["input"]) == ("js", "mcp__x__", "1+1")


def test_a_user_that_is_too_long_for_openai_is_left_out() -> None:
    body = {**_PLAIN["messages"], "metadata": {"user_id": "u" * 65}}
    assert "user" not in said("messages", body, "chat")
    assert said("messages", {**body, "metadata": {"user_id": "u"}}, "responses")["user"] == "u"


def test_ids_of_calls_are_such_as_messages_takes() -> None:
    body = json.loads(json.dumps(CHAT))
    body["messages"][2]["tool_calls"][0]["id"] = body["messages"][3]["tool_call_id"] = "functions.look:0"
    messages = said("chat", body, "messages")["messages"]
    assert messages[1]["content"][1]["id"] == "functions_look_0"
    assert messages[2]["content"][0]["tool_use_id"] == "functions_look_0"


@pytest.mark.parametrize(
    ("model", "fields", "asked"),
    [
        ("claude-sonnet-4-5", {"max_completion_tokens": 10_000}, {"type": "enabled", "budget_tokens": 8000}),
        ("claude-3-7-sonnet-latest", {}, {"type": "enabled", "budget_tokens": 25_600}),
        ("claude-opus-4-20250514", {}, {"type": "enabled", "budget_tokens": 25_600}),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", {}, {"type": "enabled", "budget_tokens": 25_600}),
        ("anthropic/claude-sonnet-4.5", {}, {"type": "enabled", "budget_tokens": 25_600}),
        ("anthropic/claude-sonnet-4.6", {}, {"type": "adaptive"}),
        ("claude-haiku-4-5-20251001", {"max_completion_tokens": 1024}, None),
        ("claude-opus-4-6", {}, {"type": "adaptive"}),
        ("claude-sonnet-5", {}, {"type": "adaptive"}),
        ("qwen", {}, {"type": "adaptive"}),
    ],
)
def test_an_effort_is_asked_of_each_claude_as_it_takes_it(
    model: str, fields: dict[str, Any], asked: dict[str, Any] | None
) -> None:
    body = {**_PLAIN["chat"], "model": model, "reasoning_effort": "high", **fields}
    told = said("chat", body, "messages")
    assert told.get("thinking") == asked
    assert told.get("output_config") == ({"effort": "high"} if asked == {"type": "adaptive"} else None)
    assert told["max_tokens"] == fields.get("max_completion_tokens", 32_000)


def test_a_budget_is_not_asked_for_in_a_loop_of_tools_whose_thinking_is_gone() -> None:
    body = {**CHAT, "model": "claude-sonnet-4-5", "messages": CHAT["messages"][:-1]}
    assert "thinking" not in said("chat", body, "messages")


@pytest.mark.parametrize(
    ("fields", "effort"),
    [
        ({}, None),
        ({"thinking": {"type": "adaptive"}}, None),
        ({"thinking": {"type": "disabled"}}, "none"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1999}}, "xhigh"),
        ({"output_config": {"effort": "max"}}, "max"),
    ],
)
def test_thinking_is_an_effort_elsewhere(fields: dict[str, Any], effort: str | None) -> None:
    body = _of_messages({"role": "user", "content": "Hi"}, **fields)
    assert said("messages", body, "chat").get("reasoning_effort") == effort
    assert said("messages", body, "responses").get("reasoning", {}).get("effort") == effort


def test_the_limit_that_messages_demands_is_ours_where_the_client_names_none() -> None:
    assert said("chat", _PLAIN["chat"], "messages")["max_tokens"] == 8192
    assert said("chat", {**_PLAIN["chat"], "max_tokens": 5}, "messages")["max_tokens"] == 5


def test_what_is_dropped_is_not_sent_though_it_could_be_said() -> None:
    """Newer models of Messages refuse a temperature."""
    assert "temperature" not in said("chat", CHAT, "messages", "temperature")
    assert "stop_sequences" not in said("chat", {**CHAT, "stop": "x"}, "messages", "stop")
    for name in ("effort", "output_config.effort", "reasoning_effort"):
        assert "reasoning_effort" not in said("messages", MESSAGES, "chat", name)


def test_a_body_that_asks_for_a_count_is_said_without_a_limit() -> None:
    count = {name: MESSAGES[name] for name in ("model", "system", "messages", "tools")}
    told = said("messages", count, "chat")
    assert "max_completion_tokens" not in told
    assert told["messages"] == CHAT["messages"]


def test_only_these_three_apis_are_translated() -> None:
    body = {"model": "m", "prompt": "Hi"}
    with pytest.raises(NotTranslatable):
        written(CODECS["completions"].read(b"", body), "chat")


def test_long_integers_in_arguments_survive() -> None:
    body = json.loads(json.dumps(CHAT))
    body["messages"][2]["tool_calls"][0]["function"]["arguments"] = '{"id":123456789012345678901}'
    told = said("chat", body, "messages")
    assert told["messages"][1]["content"][1]["input"] == {"id": 123456789012345678901}
    assert said("messages", told, "chat")["messages"][2] == body["messages"][2]


def test_the_page_has_every_field() -> None:
    rows = ["| | chat | Responses | Messages | where there is no word for it |", "|---|---|---|---|---|"]
    for field in FIELDS:
        names = [f"`{name}`" if name else "" for name in field[:4]]
        lost = f"left out: {field.harmless}" if field.harmless else field.instead or "refused"
        rows.append(f"| {' | '.join(names)} | {lost if '' in names else ''} |")
    page = (Path(__file__).parents[3] / "docs" / "reference" / "translation.md").read_text(encoding="utf-8")
    assert "\n".join(rows) in page
