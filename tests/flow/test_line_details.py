"""What a request leaves behind, over real sockets: enough to find it and to see why it went as it did, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from learning.bank.forgetting import Forgetter
from store import Store
from store.decisions.details import RequestDetails
from store.decisions.resolve import Hit
from tests.flow.line import Asked, Got, completion
from tests.flow.test_line_examples import ALIKE, QUESTION, Stage, stage

SECRET = "sk-proj-" + "Qm7vT2xLr9ZkB4nWc8JdY1hG"
ANN = {"Authorization": "Bearer sk-shop", "x-understudy-user": "ann the buyer"}
TOOL = {
    "type": "function",
    "function": {"name": "look_up", "description": "Finds an order.", "parameters": {}},
}
CALLS = [{"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"order": 7}'}}]


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Stage]:
    memory = {"data_dir": str(tmp_path), "exact": {"enabled": True}, "anonymous": False}
    async with stage(tmp_path, memory=memory) as made:
        yield made


def store_of(here: Stage) -> Store:
    memory = here.gate.gateway.memory
    assert memory is not None
    return memory.store


def details(here: Stage, got: Got) -> RequestDetails:
    decisions = store_of(here).decisions
    row = decisions.requests.get(got.headers["x-understudy-decision-id"])
    assert row is not None
    found = decisions.details.get(row.tenant, row.id)
    assert found is not None
    return found


async def test_tools_parameters_user_and_session_are_kept_and_find_the_request(here: Stage) -> None:
    async def calls(request: web.Request, asked: Asked) -> web.StreamResponse:
        message = {"content": None, "tool_calls": CALLS}
        return web.json_response(
            completion("", id="chatcmpl-77", message=message, finish_reason="tool_calls")
        )

    here.large.script = calls
    headers = ANN | {"x-understudy-session": "trip to Rome"}
    got = await here.gate.chat(QUESTION, headers, tools=[TOOL], temperature=0.25)
    found = details(here, got)
    assert (found.user, found.session_name, found.completion_id) == (
        "ann the buyer",
        "trip to Rome",
        "chatcmpl-77",
    )
    assert found.parameters == {"temperature": 0.25} and found.finish_reasons == ("tool_calls",)
    assert found.tools_offered[0].description == "Finds an order."
    assert [(call.name, call.arguments) for call in found.tools_called] == [("look_up", '{"order": 7}')]
    assert found.came is not None and found.came.value["messages"][0]["content"] == QUESTION
    find = store_of(here).decisions.resolve.find
    request = Hit("request", found.request_id, found.tenant)
    assert find("chatcmpl-77") == [request] == find(found.request_id[:8])
    assert find("trip to Rome") == [Hit("session", found.session, found.tenant)]
    assert find("ann the buyer") == [Hit("user", found.end_user, found.tenant)]


async def test_a_failure_keeps_its_prompt_and_what_was_said_without_keys(here: Stage) -> None:
    async def refuses(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response({"error": {"message": f"Key {SECRET} is overloaded."}}, status=503)

    here.large.script = here.small.script = refuses
    got = await here.gate.chat(QUESTION, ANN)
    assert got.status == 503
    found = details(here, got)
    assert found.error_kind == "server" and "is overloaded" in found.error and SECRET not in str(found)
    assert [one.kind for one in found.attempts if one.engine == "large"] == ["server"]
    assert "is overloaded" in found.attempts[0].error and found.attempts[0].status == 503
    assert found.came is not None and found.came.value["messages"][0]["content"] == QUESTION
    row = store_of(here).decisions.requests.get(found.request_id)
    assert row is not None and "overloaded" not in str(row) and QUESTION not in str(row)


async def test_a_failure_of_another_endpoint_keeps_what_was_said(here: Stage) -> None:
    async def refuses(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response(
            {"error": {"message": f"Key {SECRET} of ann@acme.com is overloaded."}}, status=503
        )

    here.large.script = here.small.script = refuses
    got = await here.gate.post("/embeddings", {"model": "gpt-4o", "input": "x"}, ANN)
    assert got.status == 503
    found = details(here, got)
    assert found.attempts and all("is overloaded" in one.error for one in found.attempts if one.status)
    assert SECRET not in str(found) and "ann@acme.com" not in str(found) and found.error_kind == "server"
    await asyncio.to_thread(Forgetter(store_of(here)).tenant, found.tenant)
    assert store_of(here).decisions.texts.total_bytes() == 0


async def test_what_the_small_engine_got_has_the_examples_by_reference(here: Stage) -> None:
    await here.gate.chat(QUESTION, ANN)
    got = await here.gate.chat(ALIKE, ANN)
    assert got.headers["x-understudy-engine"] == "small"
    found = details(here, got)
    assert found.changes == {"model": "small-model"} and len(found.sent) == 1
    sent = found.to_engine({found.sent[0].id: (QUESTION, "Use ls -a.")})
    asked: dict[str, Any] = here.small.asked[0].json
    assert sent is not None and sent.value == asked


async def test_turns_of_a_conversation_and_repeats_are_one_session(here: Stage) -> None:
    first = await here.gate.chat(QUESTION, ANN)
    turns = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": "And sorted by size?"},
    ]
    second = await here.gate.chat(turns, ANN)
    repeat = await here.gate.chat(QUESTION, ANN)
    assert repeat.hit
    sessions = {details(here, got).session for got in (first, second, repeat)}
    assert len(sessions) == 1
    found = details(here, repeat)
    assert found.user == "ann the buyer" and found.of_another == first.headers["x-understudy-decision-id"]
    (session,) = store_of(here).decisions.sessions.page().rows
    assert (session.requests, session.hits, session.named) == (3, 1, False)


async def test_a_streamed_answer_leaves_what_a_plain_one_does(here: Stage) -> None:
    found = details(here, await here.gate.chat(QUESTION, ANN, stream=True))
    assert found.completion_id == "chatcmpl-1" and found.finish_reasons == ("stop",)
    assert found.back is not None and found.back.value["choices"][0]["message"]["content"] == "Usels-a."


async def test_nothing_is_left_of_who_forbids_it_or_is_forgotten(here: Stage) -> None:
    kept = await here.gate.chat(QUESTION, ANN | {"x-understudy-session": "trip to Rome"})
    tenant = details(here, kept).tenant
    hidden = await here.gate.chat(ALIKE, ANN | {"Cache-Control": "no-store"})
    store = store_of(here)
    assert store.decisions.requests.get(hidden.headers["x-understudy-decision-id"]) is None
    await asyncio.to_thread(Forgetter(store).contributor, tenant, user="ann the buyer")
    found = details(here, kept)
    assert not (
        found.user or found.session or found.session_name or found.end_user or found.came or found.back
    )
    assert store.decisions.resolve.find("ann the buyer") == [] == store.decisions.resolve.find("trip to Rome")
