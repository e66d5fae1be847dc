"""What guardrails are asked and may say, without sockets."""

from __future__ import annotations

import orjson
import pytest

from engines.answers.answer import Assembled
from engines.codecs.table import CODECS
from gateway.guardrails.contract import (
    NoVerdict,
    asked_after,
    asked_before,
    read_verdict,
    replaced_answer,
    replaced_request,
)
from router.asked import Arrival
from tests.answers import from_json

ARRIVAL = Arrival("id", 0.0, 0.0, path="/v1/chat/completions", tenant="t", key_id="k", api="chat")
CALLS = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
CHAT = {
    "id": "c",
    "object": "chat.completion",
    "choices": [{"index": i, "message": CALLS, "finish_reason": "tool_calls"} for i in (0, 1)],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


@pytest.mark.parametrize("said", [b"", b"[]", b"null", b'"allow"', b"{}", b'{"action": ["allow"]}', b"\xff"])
def test_what_names_no_action_is_no_verdict(said: bytes) -> None:
    with pytest.raises(NoVerdict):
        read_verdict(said)


def test_a_reason_is_short_and_holds_no_control_characters() -> None:
    verdict = read_verdict(orjson.dumps({"action": "block", "reason": "a\r\nx: y\x1b[2J" + "b" * 1000}))
    assert verdict.reason.startswith("ax: y[2J") and len(verdict.reason) <= 300
    assert read_verdict(b'{"action": "block", "reason": {"no": "text"}}').reason == ""


def test_the_questions_name_who_asks_and_what() -> None:
    before = orjson.loads(asked_before(ARRIVAL, {"model": "m", "n": 1}, like=b""))
    assert before["input_type"] == "request" and before["request"] == {"model": "m", "n": 1}
    assert (before["tenant"], before["key"], before["api"]) == ("t", "k", "chat")
    assert asked_before(ARRIVAL, {"seed": 2**70}, like=b""), "integers beyond 64 bits are legal"
    after = orjson.loads(asked_after(ARRIVAL, None, Assembled(CHAT, whole=False), like=b""))
    assert (after["input_type"], after["content"], after["complete"]) == ("response", "", False)
    assert after["response"] == CHAT and after["request"] is None


def test_only_what_a_request_says_can_be_replaced() -> None:
    fields = {"model": "m", "messages": [{"role": "user", "content": "4711"}]}
    clean = [{"role": "user", "content": "[number]"}]
    said = {"action": "replace", "messages": clean, "model": "dearest", "tools": []}
    assert replaced_request("chat", fields, said) == {"model": "m", "messages": clean}
    for wrong in ({}, {"prompt": "x"}, {"messages": {}}, {"messages": None}, {"messages": [1]}):
        with pytest.raises(NoVerdict):
            replaced_request("chat", fields, wrong)
    with pytest.raises(NoVerdict):
        replaced_request("audio", {}, {"input": "x"})


def test_a_replaced_answer_says_the_text_alone() -> None:
    answer = from_json(orjson.dumps(CHAT))
    assert answer is not None
    changed = replaced_answer("chat", answer, {"content": "No."})
    assert [choice["message"] for choice in changed.choices()] == [
        {"role": "assistant", "content": "No."}
    ] * 2
    assert not changed.calls_tools() and changed.finish_reason() == "stop" and changed.usage() is not None
    with pytest.raises(NoVerdict):
        replaced_answer("chat", Assembled(CHAT, whole=True), {"content": ["No."]})


@pytest.mark.parametrize("api", ["chat", "responses", "messages", "completions"])
def test_a_replaced_answer_can_be_streamed_in_its_api(api: str) -> None:
    own = {
        "chat": CHAT,
        "completions": {"id": "c", "object": "text_completion", "choices": [{"index": 0, "text": "old"}]},
        "messages": {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "thinking", "thinking": "old"}],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
        "responses": {
            "id": "resp_old",
            "object": "response",
            "model": "m",
            "output": [{"type": "reasoning"}],
        },
    }[api]
    fields = {"model": "m", "stream": True, "max_tokens": 5}
    fields |= {"prompt": "x"} if api == "completions" else {"input": "x"} if api == "responses" else {}
    fields |= {"messages": [{"role": "user", "content": "x"}]} if api in ("chat", "messages") else {}
    codec = CODECS[api]
    chat = codec.read(orjson.dumps(fields), fields)
    changed = replaced_answer(
        api, Assembled(own if api == "chat" else {}, whole=True, own=own), {"content": "No."}
    )
    stream = codec.events(codec.stored(changed), chat)
    assert b"No." in stream and b"old" not in stream
