"""`/v1/responses` over a WebSocket: every frame is a request that goes through the gateway's own door."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from tests.flow.line import Line, Upstream, line, upstream
from tests.flow.responses_upstream import ResponsesUpstream
from tests.patience import PATIENCE_S


@asynccontextmanager
async def stage(data: Path, **more: Any) -> AsyncIterator[tuple[Line, Upstream, ResponsesUpstream]]:
    async with upstream() as large:
        says = large.script = ResponsesUpstream("large", "Use ls -a.")
        config: dict[str, Any] = {
            "engines": {"large": {"base_url": large.url, "advanced": {"attempts": 1}}},
            "models": {"gpt-4o": {"engines": ["large"]}},
            "memory": {"data_dir": str(data), "exact": {"enabled": True}},
            **more,
        }
        async with line(config) as gate:
            yield gate, large, says


async def create(socket: aiohttp.ClientWebSocketResponse, given: Any, **fields: Any) -> list[dict[str, Any]]:
    """Ask, and give all events up to the last."""
    await socket.send_json({"type": "response.create", "model": "gpt-4o", "input": given} | fields)
    return await told(socket)


async def told(socket: aiohttp.ClientWebSocketResponse) -> list[dict[str, Any]]:
    found = []
    while True:
        found.append(json.loads(await socket.receive_str(timeout=PATIENCE_S)))
        if found[-1]["type"] in ("response.completed", "response.incomplete", "response.failed", "error"):
            return found


def asked_of(large: Upstream) -> list[dict[str, Any]]:
    return [one.json for one in large.asked if one.path.endswith("/responses")]


async def test_a_frame_is_answered_event_by_event_and_is_remembered(tmp_path: Path) -> None:
    async with (
        stage(tmp_path) as (gate, large, _),
        gate.session.ws_connect(gate.url + "/responses") as socket,
    ):
        first = await create(socket, "How do I list files?")
        assert [one["sequence_number"] for one in first] == list(range(len(first)))
        assert first[0]["type"] == "response.created"
        assert first[-1]["response"]["output"][0]["content"][0]["text"] == "Use ls -a."
        assert asked_of(large)[0]["stream"] is True
        await gate.settled()
        again = await create(socket, "How do I list files?", stream_id="two")
    assert again[-1]["response"]["output"] == first[-1]["response"]["output"]
    assert {one["stream_id"] for one in again} == {"two"}
    assert len(asked_of(large)) == 1


async def test_openais_own_client_holds_a_conversation(tmp_path: Path) -> None:
    async with (
        stage(tmp_path) as (gate, large, _),
        openai.AsyncOpenAI(base_url=gate.url, api_key="sk-x") as client,
        client.responses.connect() as connection,
    ):
        ids: list[str] = []
        for question in ("My name is Ann.", "What is it?"):
            previous = {"previous_response_id": ids[-1]} if ids else {}
            await connection.response.create(model="gpt-4o", input=question, store=False, **previous)  # type: ignore[arg-type]
            async for event in connection:
                if event.type == "response.completed":
                    ids.append(event.response.id)
                    break
    assert len(ids) == len(asked_of(large)) == 2
    assert len(asked_of(large)[1]["input"]) == 3


async def test_what_is_not_stored_is_gone_on_with_on_its_connection_only(tmp_path: Path) -> None:
    async with stage(tmp_path) as (gate, large, _):
        async with gate.session.ws_connect(gate.url + "/responses") as socket:
            first = await create(socket, "My name is Ann.", store=False)
            id = first[-1]["response"]["id"]
            second = await create(socket, "What is it?", store=False, previous_response_id=id)
        assert second[-1]["response"]["previous_response_id"] == id
        assert asked_of(large)[1]["input"] == [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "My name is Ann."}],
            },
            {"role": "assistant", "content": "Use ls -a."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What is it?"}]},
        ]
        async with gate.session.ws_connect(gate.url + "/responses") as other:
            refused = await create(other, "What is it?", store=False, previous_response_id=id)
    assert refused[-1]["type"] == "error" and refused[-1]["status"] in (400, 404)


async def test_a_frame_that_generates_nothing_prepares_the_next(tmp_path: Path) -> None:
    async with (
        stage(tmp_path) as (gate, large, _),
        gate.session.ws_connect(gate.url + "/responses") as socket,
    ):
        warm = (await create(socket, "Be brief.", generate=False))[-1]["response"]
        assert warm["output"] == [] and asked_of(large) == []
        await create(socket, "Hello?", previous_response_id=warm["id"])
        texts = [item["content"][0]["text"] for item in asked_of(large)[0]["input"]]
    assert texts == ["Be brief.", "Hello?"]


async def test_what_is_no_request_is_refused_and_the_connection_stays(tmp_path: Path) -> None:
    async with (
        stage(tmp_path) as (gate, _, _),
        gate.session.ws_connect(gate.url + "/responses") as socket,
    ):
        await socket.send_str("{")
        assert (await told(socket))[-1]["error"]["code"] == "invalid_json"
        await socket.send_json({"type": "response.steer"})
        assert (await told(socket))[-1]["error"]["code"] == "unknown_event"
        unknown = (await create(socket, "Hi", model="no-such-model"))[-1]
        assert (unknown["status"], unknown["error"]["code"]) == (404, "model_not_found")
        assert (await create(socket, "Hi"))[-1]["type"] == "response.completed"


async def test_keys_are_looked_at_for_the_handshake_and_for_each_frame(tmp_path: Path) -> None:
    async with stage(tmp_path) as (gate, large, _):
        keys = gate.gateway.memory.store.keys  # type: ignore[union-attr]
        key, secret = await asyncio.to_thread(keys.create, "acme", "agent")
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await gate.session.ws_connect(gate.url + "/responses")
        assert refused.value.status == 401
        told_key = {"Authorization": f"Bearer {secret}"}
        async with gate.session.ws_connect(gate.url + "/responses", headers=told_key) as socket:
            assert (await create(socket, "Hi"))[-1]["type"] == "response.completed"
            await asyncio.wrap_future(keys.revoke(key.id))
            error = (await create(socket, "Hi again"))[-1]
        assert (error["type"], error["status"]) == ("error", 401)
    assert len(asked_of(large)) == 1


async def test_an_answer_that_breaks_off_is_told_and_the_next_one_goes_well(tmp_path: Path) -> None:
    async with stage(tmp_path) as (gate, _, says):
        async with gate.session.ws_connect(gate.url + "/responses") as socket:
            says.breaks = True
            broken = await create(socket, "Hi")
            assert broken[-1]["type"] == "error"
            says.breaks = False
            assert (await create(socket, "Hi!"))[-1]["type"] == "response.completed"


async def test_where_it_is_off_the_handshake_is_refused_with_426(tmp_path: Path) -> None:
    off = {"advanced": {"responses_websocket": False}}
    async with stage(tmp_path, listen=off) as (gate, _, _):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await gate.session.ws_connect(gate.url + "/responses")
    assert refused.value.status == 426
