"""The cases of the Open Responses compliance suite, of engines that speak another API: plain, from memory, over a WebSocket.

The cases are those of openresponses.org (read in November 2026): what is asked, that the response has every member its
schema requires, the type of its output, and which events a stream must hold. Native engines' own words pass as they came,
which the tests of the wire show.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.flow.agents_upstream import AgentsUpstream
from tests.flow.line import Line, line, upstream
from tests.patience import PATIENCE_S

REQUIRED = frozenset(
    (
        *("id", "object", "created_at", "completed_at", "status", "incomplete_details", "model"),
        *("previous_response_id", "instructions", "output", "error", "tools", "tool_choice", "truncation"),
        *("parallel_tool_calls", "text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs"),
        *("temperature", "reasoning", "user", "usage", "max_output_tokens", "max_tool_calls", "store"),
        *("background", "service_tier", "metadata", "safety_identifier", "prompt_cache_key"),
    )
)
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS = [{"type": "function", "name": "run", "description": "Runs a command.", "parameters": COMMAND}]


def message(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


SEEN = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PIXEL}]
CASES: dict[str, dict[str, Any]] = {
    "basic": {"input": [message("user", "Say hello in exactly 3 words.")]},
    "system prompt": {"input": [message("system", "You are a pirate."), message("user", "Say hello.")]},
    "tool": {"input": [message("user", "List the files.")], "tools": TOOLS},
    "image": {"input": [message("user", SEEN)]},
    "several turns": {
        "input": [
            message("user", "My name is Ann."),
            message("assistant", "Hello Ann!"),
            message("user", "What is my name?"),
        ]
    },
}
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


@asynccontextmanager
async def stage(api: str, data: Path) -> AsyncIterator[Line]:
    async with upstream() as engine:
        engine.script = AgentsUpstream((api,))
        config = {
            "engines": {"one": {"base_url": engine.url, "apis": [api]}},
            "models": {"m": {"engines": ["one"]}},
            "memory": {"data_dir": str(data), "exact": {"enabled": True}},
        }
        async with line(config) as gate:
            yield gate


def check(response: dict[str, Any], case: str) -> None:
    assert response.keys() >= REQUIRED, sorted(REQUIRED - response.keys())
    Response.model_validate(response)
    assert response["status"] == "completed"
    kinds = [item["type"] for item in response["output"]]
    assert kinds == ["function_call" if case == "tool" else "message"]


def check_events(events: list[dict[str, Any]], case: str) -> None:
    for event in events:
        EVENT.validate_python(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"] for event in events]
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
    added = [e["item"]["type"] for e in events if e["type"] == "response.output_item.added"]
    done = [e["item"]["type"] for e in events if e["type"] == "response.output_item.done"]
    assert added == done == ["function_call" if case == "tool" else "message"]
    said = "function_call_arguments" if case == "tool" else "output_text"
    assert {f"response.{said}.delta", f"response.{said}.done"} <= set(kinds)
    check(events[-1]["response"], case)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("api", ["chat", "messages"])
async def test_a_case(tmp_path: Path, api: str, case: str) -> None:
    asked = {"model": "m", **CASES[case]}
    async with stage(api, tmp_path) as gate:
        for _ in range(2):
            got = await gate.post("/responses", asked)
            assert got.status == 200, got.text
            check(got.json, case)
            await gate.settled()
        assert got.hit is (case != "tool"), "only what has no calls is remembered"
        for again in (False, True):
            # A field that changes nothing but the key: the first of the two is asked of the engine.
            stream = await gate.post("/responses", asked | {"stream": True, "max_output_tokens": 99})
            check_events(
                [
                    json.loads(line[6:])
                    for line in stream.body.decode().splitlines()
                    if line.startswith("data: ")
                ],
                case,
            )
            await gate.settled()
            assert stream.hit is (again and case != "tool")
        async with gate.session.ws_connect(gate.url + "/responses") as socket:
            await socket.send_json({"type": "response.create", **asked, "max_output_tokens": 98})
            events = [json.loads(await socket.receive_str(timeout=PATIENCE_S))]
            while events[-1]["type"] != "response.completed":
                events.append(json.loads(await socket.receive_str(timeout=PATIENCE_S)))
        check_events(events, case)


async def test_a_conversation_goes_on_from_an_answer_by_its_id(tmp_path: Path) -> None:
    async with stage("chat", tmp_path) as gate:
        first = await gate.post("/responses", {"model": "m", "input": "My name is Ann."})
        await gate.settled()
        named = {"previous_response_id": first.json["id"]}
        second = await gate.post("/responses", {"model": "m", "input": "What is my name?", **named})
        assert second.status == 200, second.text
        check(second.json, "several turns")
