"""Lines as the tools that write them write them, and what becomes of each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from learning.bank.importing.formats import BadLine, BatchInput, BatchOutput, Exported, Pair, read_line

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2+2?"}]
ANSWER = {"role": "assistant", "content": "Four.", "refusal": None}
COMPLETION: dict[str, Any] = {
    "id": "chatcmpl-9",
    "object": "chat.completion",
    "created": 1724858089,
    "model": "gpt-4o-mini-2024-07-18",
    "choices": [{"index": 0, "message": ANSWER, "logprobs": None, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 24, "completion_tokens": 8, "total_tokens": 32},
}
SPEND_LOG: dict[str, Any] = {
    "request_id": "chatcmpl-77",
    "call_type": "acompletion",
    "api_key": "88dc28d0f030c55ed4ab77ed8faf098196cb1c05df778539800c9f1243fe6b4b",
    "startTime": "2026-02-03T10:00:00.123000+00:00",
    "model": "gpt-4o",
    "prompt_tokens": 30,
    "completion_tokens": 2,
    "status": "success",
    "end_user": "u-17",
    "messages": {},
    "response": COMPLETION,
    "proxy_server_request": {"model": "gpt-4o", "messages": ASKED, "response_format": {"type": "text"}},
}


def pair(line: dict[str, Any], format: str = "auto") -> Pair:
    read = read_line(line, format)
    assert isinstance(read, Pair)
    return read


def test_a_fine_tuning_line_is_a_demonstration_of_its_last_answer() -> None:
    earlier = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "weight": 0}]
    read = pair({"messages": [*earlier, *ASKED, ANSWER]})
    assert (read.answer, read.kind) == ("Four.", "demonstration")
    assert read.fields["messages"] == [*earlier, *ASKED]


def test_a_preference_line_gives_the_preferred_answer_and_never_the_other() -> None:
    line = {
        "input": {"messages": ASKED, "tools": [], "parallel_tool_calls": True},
        "preferred_output": [ANSWER],
        "non_preferred_output": [{"role": "assistant", "content": "Five."}],
    }
    assert pair(line).answer == "Four."


def test_a_batchs_output_is_joined_with_its_input() -> None:
    url = "/v1/chat/completions"
    asked = read_line({"custom_id": "r-1", "method": "POST", "url": url, "body": {"messages": ASKED}})
    answered = read_line(
        {
            "id": "batch_req_1",
            "custom_id": "r-1",
            "response": {"status_code": 200, "body": COMPLETION},
            "error": None,
        }
    )
    assert isinstance(asked, BatchInput) and isinstance(answered, BatchOutput)
    read = answered.joined(asked.body)
    assert (read.answer, read.kind, read.source) == ("Four.", "observed", COMPLETION["model"])
    assert (read.prompt_tokens, read.completion_tokens, read.created_at_s) == (24, 8, 1724858089)


@pytest.mark.parametrize("as_text", [False, True], ids=["objects", "json-text"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["body", "wrapped"])
def test_a_litellm_spend_log_keeps_its_prompt_where_litellm_puts_it(as_text: bool, wrapped: bool) -> None:
    line = dict(SPEND_LOG)
    if wrapped:
        line["proxy_server_request"] = {"url": "http://x", "body": line["proxy_server_request"]}
    if as_text:
        line |= {n: json.dumps(line[n]) for n in ("messages", "response", "proxy_server_request")}
    read = pair(line)
    assert read.fields["messages"] == ASKED and read.fields["response_format"] == {"type": "text"}
    assert (read.answer, read.fields["user"]) == ("Four.", "u-17")
    assert read.created_at_s == pytest.approx(1770112800.123)


def test_a_litellm_logging_payload_has_its_prompt_in_messages() -> None:
    payload = {
        "id": "chatcmpl-78",
        "call_type": "completion",
        "status": "success",
        "startTime": 1770112800.5,
        "model": "gpt-4o",
        "messages": ASKED,
        "model_parameters": {"response_format": {"type": "json_object"}},
        "response": COMPLETION,
    }
    read = pair(payload, "litellm")
    assert read.fields["response_format"] == {"type": "json_object"} and read.created_at_s == 1770112800.5


def test_our_own_export_is_recognised() -> None:
    line = dict.fromkeys(("scope", "question", "answer", "embedded_text", "request_id"), "x")
    assert isinstance(read_line({"understudy": 1, **line}), Exported)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"messages": ASKED}, "not the assistant's"),
        ({"messages": "no"}, "'messages' must be a list"),
        ({"messages": [*ASKED, ANSWER | {"weight": 0}]}, "weight 0"),
        ({"messages": [*ASKED, {"role": "assistant", "content": None, "tool_calls": [{}]}]}, "calls a tool"),
        ({"custom_id": "r-1", "response": {"status_code": 429, "body": {}}}, "failed (status 429"),
        (
            {"custom_id": "r-1", "response": None, "error": {"code": "expired"}},
            "'response' must be an object",
        ),
        ({"custom_id": "r-1", "url": "/v1/embeddings", "body": {}}, "not to chat completions"),
        ({"request": {"messages": ASKED}, "response": COMPLETION | {"choices": []}}, "exactly one choice"),
        (SPEND_LOG | {"proxy_server_request": {}}, "store_prompts_in_spend_logs"),
        (SPEND_LOG | {"response": "{}"}, "store_prompts_in_spend_logs"),
        (SPEND_LOG | {"status": "failure"}, "did not succeed"),
        (SPEND_LOG | {"call_type": "aembedding"}, "only completions"),
        ({"understudy": 2}, "another version"),
        ({"understudy": 1, "question": ""}, "'scope' must be"),
        ({"prompt": "p", "completion": "c"}, "its keys are completion, prompt"),
    ],
)
def test_what_cannot_become_an_example_says_why_and_not_what_it_held(line: dict[str, Any], says: str) -> None:
    with pytest.raises(BadLine) as refused:
        read_line(line)
    assert says in str(refused.value)
    assert "2+2" not in str(refused.value) and "Four" not in str(refused.value)


def test_a_named_format_takes_no_other() -> None:
    with pytest.raises(BadLine, match="'understudy'"):
        read_line({"messages": [*ASKED, ANSWER]}, "understudy")
