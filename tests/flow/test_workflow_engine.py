"""A workflow is a model as others are: each API, limits, guardrails, memory, the request log and the books hold for it, and
for each of its steps, which is a request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from store.people.limits import Budget, Limits
from store.records import RequestRecord, Terms
from tests.aiohttp_server import aiohttp_server
from tests.flow.line import Asked, Got, Line, Upstream, line
from tests.flow.line import upstream as scripted
from tests.flow.test_line_runs import KEY, Slow, get, say
from tests.flow.test_line_workflows import ECHO, answers, states
from tests.patience import until

TWO = {
    "inputs": {"question": "last_user"},
    "steps": {
        "draft": {"chat": "Draft {{question}}", "model": "m"},
        "answer": {"chat": "Say {{draft}}", "model": "m"},
    },
    "output": "answer",
}
ORDER = {
    "inputs": {"question": "last_user"},
    "steps": {"placed": {"tool": "order", "args": {"dish": "{{question}}"}, "effects": True}},
    "output": "placed",
}
SAID = "<Say <Draft Oslo?>>"
PRICE = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 10.0}
"""The scripted model counts 7 tokens in and 3 out: 37 millionths of a dollar."""
COST_USD = 37e-6
BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": [{"role": "user", "content": "Oslo?"}]},
    "responses": {"input": "Oslo?"},
    "messages": {"messages": [{"role": "user", "content": "Oslo?"}], "max_tokens": 50},
    "completions": {"prompt": "Oslo?"},
}


@pytest.fixture
async def behind() -> AsyncIterator[Upstream]:
    async with scripted() as made:
        made.script = answers
        yield made


def config(behind: Upstream, tmp_path: Path, **more: Any) -> dict[str, Any]:
    engine = {"kind": "openai", "base_url": behind.url, "api_key": "sk-up", "price": PRICE}
    return {
        "engines": {"big": engine},
        "models": {"m": {"engines": ["big"], "policy": "fixed"}},
        "memory": {"data_dir": str(tmp_path / "data"), "examples": {"enabled": False}},
        "components": {"order": {"kind": "tool", "url": f"{behind.url}/order"}},
        "workflows": {"two": TWO, "echo": ECHO, "order": ORDER},
        **more,
    }


@pytest.fixture
async def gate(behind: Upstream, tmp_path: Path) -> AsyncIterator[Line]:
    async with line(config(behind, tmp_path)) as made:
        yield made


async def call(gate: Line, path: str = "chat/completions", headers: dict[str, str] = KEY, **more: Any) -> Got:
    return await gate.post(f"/{path}", {"model": "two", **BODIES[path], **more}, headers)


def text_of(path: str, got: Got) -> str:
    """What an answer of this API says, streamed or not."""
    if got.headers["Content-Type"].startswith("text/event-stream"):
        told = [json.loads(each[6:]) for each in got.body.decode().splitlines() if each.startswith("data: {")]
        if path == "responses":
            return "".join(each["delta"] for each in told if each["type"] == "response.output_text.delta")
        if path == "messages":
            return "".join(
                each["delta"].get("text", "") for each in told if each["type"] == "content_block_delta"
            )
        choices = [choice for each in told for choice in each["choices"]]
        if path == "completions":
            return "".join(choice["text"] for choice in choices)
        return "".join(choice["delta"].get("content") or "" for choice in choices)
    said = got.json
    match path:
        case "responses":
            return str(said["output"][0]["content"][0]["text"])
        case "messages":
            return str(said["content"][0]["text"])
        case "completions":
            return str(said["choices"][0]["text"])
    return str(said["choices"][0]["message"]["content"])


def rows(gate: Line) -> list[RequestRecord]:
    """The request log, the oldest first."""
    assert gate.gateway.memory is not None
    return gate.gateway.memory.store.decisions.requests.recent()[::-1]


def booked(gate: Line) -> tuple[int, int, float, int]:
    """(requests, tokens, dollars, requests without a price) in the books."""
    assert gate.gateway.memory is not None
    sums = [one.amounts for one in gate.gateway.memory.store.decisions.usage.sums()]
    return (
        sum(one.requests for one in sums),
        sum(one.prompt_tokens + one.completion_tokens for one in sums),
        round(sum(one.cost_usd for one in sums), 9),
        sum(one.unpriced for one in sums),
    )


# ---- each API


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", BODIES)
async def test_a_workflow_answers_in_every_api(gate: Line, path: str, stream: bool) -> None:
    got = await call(gate, path, stream=stream)
    assert got.status == 200 and text_of(path, got) == SAID, got.body
    run = (await get(gate, f"/runs/{got.headers['x-understudy-run']}")).json
    assert run["status"] == "done" and got.headers["x-understudy-engine"] == "workflow"
    again = await call(gate, path, stream=not stream)
    assert again.status == 200 and text_of(path, again) == SAID and "hit" in again.headers["Cache-Status"]


@pytest.mark.parametrize("path", BODIES)
async def test_errors_of_a_step_are_in_the_shape_of_the_api(gate: Line, behind: Upstream, path: str) -> None:
    async def refuses(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response({"error": {"message": "The prompt is odd.", "code": "odd"}}, status=400)

    behind.script = refuses
    for stream in (False, True):
        got = await call(gate, path, stream=stream)
        assert got.status == 400 and "The prompt is odd." in got.json["error"]["message"]
        assert got.json.get("type") == ("error" if path == "messages" else None)
        assert got.headers["x-should-retry"] == "false" and got.headers["x-understudy-run"]
        if path != "messages":
            assert got.json["error"]["param"] == "draft"
    row = next(row for row in rows(gate) if not row.step)
    assert (row.outcome, row.error_kind, row.engine) == ("failed", "step_failed", "workflow")


async def test_a_conversation_of_responses_goes_on(gate: Line) -> None:
    first = await call(gate, "responses")
    id = first.json["id"]
    assert (await get(gate, f"/responses/{id}")).json["id"] == id
    second = await call(gate, "responses", previous_response_id=id, input="Bergen?")
    assert second.status == 200 and text_of("responses", second) == SAID.replace("Oslo", "Bergen"), (
        second.body
    )
    other = await call(gate, "responses", conversation="conv_1")
    assert other.status in (400, 404)


# ---- tools


TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"in":"Oslo"}'}}


async def calls(request: web.Request, asked: Asked) -> web.StreamResponse:
    """A model that calls the tool where it is given one, until it knows what the tool said."""
    messages = asked.json["messages"]
    if messages[-1]["role"] == "tool":
        return await say(request, asked, f"It is {messages[-1]['content']}.")
    if "tools" not in asked.json:
        return await answers(request, asked)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    begun = {**CALL, "index": 0, "function": {"name": "weather", "arguments": '{"in":'}}
    rest = {"index": 0, "function": {"arguments": '"Oslo"}'}}
    for delta, reason in ({"tool_calls": [begun]}, None), ({"tool_calls": [rest]}, None), ({}, "tool_calls"):
        chunk = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    return response


@pytest.mark.parametrize("stream", [False, True])
async def test_a_clients_tools_are_called_by_the_chat_that_answers(
    gate: Line, behind: Upstream, stream: bool
) -> None:
    behind.script = calls
    got = await call(gate, stream=stream, tools=[TOOL])
    assert got.status == 200, got.body
    if stream:
        deltas = [each["choices"][0]["delta"] for each in got.events]
        (told,) = [delta["tool_calls"][0] for delta in deltas if delta.get("tool_calls")]
        assert told == {"index": 0, **CALL}
    else:
        message = got.json["choices"][0]["message"]
        assert (message["content"], message["tool_calls"]) == (None, [CALL])
        assert got.json["choices"][0]["finish_reason"] == "tool_calls"
    assert "tools" not in behind.asked[0].json and behind.asked[1].json["tools"] == [TOOL]
    said = [
        *BODIES["chat/completions"]["messages"],
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "cold"},
    ]
    then = await call(gate, messages=said, tools=[TOOL], stream=stream)
    assert then.text == "It is cold.", then.body


async def test_responses_call_tools_too(gate: Line, behind: Upstream) -> None:
    behind.script = calls
    tool = {"type": "function", **TOOL["function"]}  # type: ignore[dict-item]
    got = await call(gate, "responses", tools=[tool], tool_choice={"type": "function", "name": "weather"})
    (item,) = got.json["output"]
    assert (item["type"], item["call_id"], item["arguments"]) == ("function_call", "call_1", '{"in":"Oslo"}')
    assert behind.asked[-1].json["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "cold"}
    then = await call(gate, "responses", previous_response_id=got.json["id"], input=[output], tools=[tool])
    assert text_of("responses", then) == "It is cold.", then.body


async def test_tools_that_cannot_be_called_are_refused(gate: Line, behind: Upstream) -> None:
    tool = {"name": "weather", "input_schema": {"type": "object"}}
    for got in (await call(gate, model="order", tools=[TOOL]), await call(gate, "messages", tools=[tool])):
        assert got.status == 400 and got.json["error"]["code"] == "unsupported_field", got.body
    assert not behind.asked


# ---- the log and the books


@pytest.mark.parametrize("stream", [False, True])
async def test_steps_are_booked_and_the_call_is_not_booked_again(gate: Line, stream: bool) -> None:
    got = await call(gate, stream=stream)
    run = got.headers["x-understudy-run"]
    whole, *steps = rows(gate)
    assert [(row.run, row.step, row.model) for row in steps] == [(run, "draft", "m"), (run, "answer", "m")]
    assert (whole.run, whole.step, whole.model, whole.engine) == (run, "", "two", "workflow")
    assert (whole.prompt_tokens, whole.completion_tokens, whole.cost_usd) == (14, 6, 0.0)
    assert not whole.usage_estimated
    assert booked(gate) == (3, 20, round(2 * COST_USD, 9), 0)
    if not stream:
        assert got.json["usage"]["total_tokens"] == 20
        assert float(got.headers["x-understudy-cost"]) == pytest.approx(2 * COST_USD)
    told = (await get(gate, f"/usage/{got.headers['x-understudy-decision-id']}")).json
    assert (told["run"], told["prompt_tokens"], told["completion_tokens"]) == (run, 14, 6)
    assert told["cost_usd"] is None
    assert (await get(gate, f"/runs/{run}")).json["cost_usd"] == pytest.approx(2 * COST_USD)


async def test_rollups_and_sessions_count_tokens_once(gate: Line) -> None:
    await call(gate, headers=KEY | {"x-understudy-session": "one"})
    assert gate.gateway.memory is not None
    rollups = gate.gateway.memory.store.decisions.rollups()
    await asyncio.to_thread(rollups.catch_up, 100)
    ((_, requests, cost_usd, tokens),) = rollups.by_tenant(0.0)
    assert (requests, tokens) == (3, 20) and cost_usd == pytest.approx(2 * COST_USD)
    (session,) = gate.gateway.memory.store.decisions.sessions.page().rows
    assert (session.prompt_tokens, session.completion_tokens) == (14, 6)


async def test_a_repeat_is_answered_from_memory_without_a_run(gate: Line, behind: Upstream) -> None:
    first, again = await call(gate), await call(gate)
    assert again.text == first.text == SAID and len(behind.asked) == 2
    assert "x-understudy-run" not in again.headers and rows(gate)[-1].outcome == "hit"
    fresh = await call(gate, headers=KEY | {"Cache-Control": "no-cache"})
    assert fresh.headers["x-understudy-run"] != first.headers["x-understudy-run"]
    other = await call(gate, messages=[{"role": "user", "content": "Bergen?"}])
    assert other.text == SAID.replace("Oslo", "Bergen")
    assert booked(gate)[1] == 60


async def test_who_asks_the_same_meanwhile_gets_the_same_run(gate: Line, behind: Upstream) -> None:
    got = await asyncio.gather(*(call(gate) for _ in range(5)))
    assert {each.text for each in got} == {SAID}
    assert len(behind.asked) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_the_run_ends_when_all_have_left_who_asked_for_it(
    gate: Line, behind: Upstream, stream: bool
) -> None:
    slow = Slow("Os", "lo")
    behind.script = slow.script
    sent = [asyncio.create_task(call(gate, model="echo", stream=stream)) for _ in range(2)]
    await slow.begun.wait()
    for each in sent:
        each.cancel()
    await asyncio.wait(sent)
    await until(lambda: states(gate) == ["cancelled"], "the run is cancelled")
    await until(slow.left.is_set, "its engine is left")


async def test_a_changed_definition_is_another_answer(behind: Upstream, tmp_path: Path) -> None:
    made = config(behind, tmp_path)
    async with line(made) as gate:
        assert (await call(gate)).text == SAID
    made["workflows"] = {"two": json.loads(json.dumps(TWO).replace("Draft", "Sketch"))}
    async with line(made) as gate:
        assert (await call(gate)).text == SAID.replace("Draft", "Sketch")


@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_stand_in_had_a_part_in_is_not_remembered(
    behind: Upstream, tmp_path: Path, stream: bool
) -> None:
    down = True

    async def fails_at_first(request: web.Request, asked: Asked) -> web.StreamResponse:
        if down and "/big/" in request.path:
            return web.json_response({"error": {"message": "out of order"}}, status=503)
        return await answers(request, asked)

    behind.script = fails_at_first
    made = config(behind, tmp_path, health={"every_s": None})
    big = made["engines"]["big"]
    made["engines"] = {"spare": big, "big": {**big, "base_url": f"{behind.url}/big"}}
    made["models"]["m"]["engines"] = ["spare", "big"]
    async with line(made) as gate:
        first = await call(gate, stream=stream)
        down = False
        again = await call(gate, stream=stream)
        assert text_of("chat/completions", first) == text_of("chat/completions", again) == SAID
        assert "x-understudy-run" in again.headers, "it ran anew"


async def test_effects_are_repeated_and_tenants_own_are_known_by_their_version(
    gate: Line, behind: Upstream
) -> None:
    async def orders(request: web.Request, asked: Asked) -> web.StreamResponse:
        if request.path.endswith("/order"):
            return web.json_response("order 7")
        return await answers(request, asked)

    behind.script = orders
    for n in (1, 2):
        assert (await call(gate, model="order")).text == "order 7"
        assert len(behind.asked) == n
    await gate.post("/workflows", {"name": "mine", **ECHO}, KEY)
    one, two = await call(gate, model="wf/mine"), await call(gate, "messages", model="wf/mine")
    assert one.text == text_of("messages", two) == "<Say Oslo?>"
    louder = json.loads(json.dumps(ECHO).replace("Say", "Shout"))
    await gate.post("/workflows", {"name": "mine", **louder}, KEY)
    assert (await call(gate, model="wf/mine")).text == "<Shout Oslo?>"
    assert "hit" in (await call(gate, model="wf/mine")).headers["Cache-Status"]


# ---- what a key may do


async def key(gate: Line, limits: Limits, tenant: str = "acme", **more: Any) -> dict[str, str]:
    assert gate.gateway.memory is not None
    keys = gate.gateway.memory.store.keys
    secret = (await asyncio.to_thread(keys.create, tenant, "web", terms=Terms(limits=limits, **more)))[1]
    await until(lambda: keys.lookup(secret) is not None, "the key known")
    return {"Authorization": f"Bearer {secret}"}


async def test_tokens_and_dollars_are_limited_by_steps_and_once(gate: Line) -> None:
    headers = await key(gate, Limits(tokens_per_minute=200, budgets=(Budget(1.0, "day"),), concurrency=1))
    for text in ("Oslo?", "Bergen?", "Narvik?"):
        got = await call(gate, headers=headers, messages=[{"role": "user", "content": text}], max_tokens=3)
        assert got.status == 200, got.body
    memory = gate.gateway.memory
    assert memory is not None
    (id,) = [each.id for each in memory.store.keys.list()]

    def spent() -> dict[str, int]:
        standings = memory.store.allowances.standings(f"key:{id}", 0)
        return {one.window.kind: one.spent for one in standings if not one.leased}

    await until(lambda: "usd:day" in spent(), "what was spent is booked")
    assert (spent()["usd:day"], spent()["tokens"]) == (round(6 * COST_USD * 1e9), 60)


@pytest.mark.parametrize("path", BODIES)
async def test_a_key_needs_the_models_of_the_steps_beside_the_workflow(gate: Line, path: str) -> None:
    both = await key(gate, Limits(models=("two", "m")))
    only = await key(gate, Limits(models=("two",)))
    none = await key(gate, Limits(models=("m",)))
    assert (await call(gate, path, both)).status == 200
    refused = await call(gate, path, only)
    assert refused.status == 403 and refused.json["error"]["code"] == "model_not_allowed"
    assert "draft" in refused.json["error"]["message"]
    assert (await call(gate, path, none)).status == 403


async def test_a_workflow_asks_no_workflow(behind: Upstream, tmp_path: Path) -> None:
    """Where a default upstream could have a model of every name, only the call can tell."""
    itself = json.loads(json.dumps(ECHO).replace('"m"', '"wf/mine"'))
    async with line(config(behind, tmp_path, upstream={"base_url": behind.url})) as gate:
        assert (await gate.post("/workflows", {"name": "mine", **itself}, KEY)).status == 200
        got = await call(gate, model="wf/mine")
        assert (got.status, got.json["error"]["code"]) == (404, "model_not_found"), got.body
    assert not behind.asked


async def test_a_step_of_a_run_asks_no_workflow(gate: Line, behind: Upstream) -> None:
    step = {
        "model": "two",
        "messages": [{"role": "user", "content": "x"}],
        "understudy": {"output": {"name": "x"}},
    }
    got = await gate.post("/runs", {"steps": [step]}, KEY)
    assert (got.status, got.json["error"]["code"]) == (404, "model_not_found") and not behind.asked


# ---- each step is let in, answered and noted as a request, whichever way it came


STEP = {"model": "m", "messages": [{"role": "user", "content": "Say Oslo?"}]}


async def by_workflow(gate: Line, headers: dict[str, str], **more: Any) -> Got:
    """A workflow of one step."""
    return await call(gate, headers=headers, model="echo", **more)


async def by_run(gate: Line, headers: dict[str, str], **more: Any) -> Got:
    """A run of one step."""
    return await gate.post(
        "/runs", {"steps": [STEP | {"understudy": {"output": {"name": "x"}}} | more]}, headers
    )


async def by_call(gate: Line, headers: dict[str, str], **more: Any) -> Got:
    """A call that waits for its inputs."""
    return await gate.post(
        "/chat/completions", STEP | {"understudy": {"output": {"name": "x"}}} | more, headers
    )


DOORS = [by_workflow, by_run, by_call]


@pytest.mark.parametrize("door", DOORS)
async def test_the_row_of_a_step_names_whose_it_is_and_its_run(gate: Line, door: Any) -> None:
    headers = await key(gate, Limits())
    got = await door(gate, headers, user="ann")
    assert got.status == 200, got.body
    (step,) = [row for row in rows(gate) if row.step]
    assert (step.run, step.model, step.engine) == (got.headers["x-understudy-run"], "m", "big")
    assert step.key_id and (step.cost_usd, step.prompt_tokens) == (pytest.approx(COST_USD), 7)


@pytest.mark.parametrize("door", DOORS)
async def test_a_step_is_answered_from_memory(gate: Line, behind: Upstream, door: Any) -> None:
    assert (await door(gate, KEY)).status == 200
    if door is by_workflow:
        # The same again would be answered as a whole.
        await gate.post("/workflows", {"name": "mine", **ECHO}, KEY)
        got = await call(gate, model="wf/mine")
    else:
        got = await door(gate, KEY)
    assert got.status == 200 and len(behind.asked) == 1, got.body
    (hit,) = [row for row in rows(gate) if row.outcome == "hit"]
    assert hit.run == got.headers["x-understudy-run"] and hit.step


REFUSED: dict[str, tuple[Limits, str]] = {
    "its model is none of the key's": (Limits(models=("echo",)), "model_not_allowed"),
    "its model has no price": (Limits(budgets=(Budget(1.0, "day"),)), "unpriced"),
    "it asks for more than a minute has": (Limits(tokens_per_minute=5), "tokens_per_minute_exceeded"),
    "the budget is spent": (
        Limits(budgets=(Budget(1e-9, "day"),), allow_unpriced=True),
        "insufficient_quota",
    ),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("why", REFUSED)
async def test_a_step_is_refused_as_a_request_is(
    behind: Upstream, tmp_path: Path, why: str, door: Any
) -> None:
    limits, code = REFUSED[why]
    made = config(behind, tmp_path)
    if code == "unpriced":
        del made["engines"]["big"]["price"]
    async with line(made) as gate:
        headers = await key(gate, limits)
        got = await door(gate, headers, max_tokens=3)
        plain = await call(gate, headers=headers, model="m", max_tokens=3)
        assert code in got.body.decode(), got.body
        assert code in plain.body.decode() and got.status == plain.status, plain.body
    assert not behind.asked


@pytest.mark.parametrize("door", DOORS)
async def test_a_step_is_answered_in_the_region_of_its_tenant(
    behind: Upstream, tmp_path: Path, door: Any
) -> None:
    made = config(behind, tmp_path, tenants={"acme": {"region": "eu"}})
    made["engines"] = {
        "big": {**made["engines"]["big"], "region": "us"},
        "near": {**made["engines"]["big"], "region": "eu"},
    }
    async with line(made) as gate:
        refused = await door(gate, await key(gate, Limits()))
        assert refused.status == 403 and "region_not_allowed" in refused.body.decode() and not behind.asked
    made["models"]["m"]["engines"] = ["near", "big"]
    async with line(made) as gate:
        assert (await door(gate, await key(gate, Limits()))).status == 200
        assert [row.engine for row in rows(gate) if row.step][-1] == "near"


@pytest.mark.parametrize("door", DOORS)
async def test_a_guardrail_is_asked_about_a_step(behind: Upstream, tmp_path: Path, door: Any) -> None:
    seen: list[dict[str, Any]] = []

    async def guard(request: web.Request) -> web.Response:
        seen.append(await request.json())
        said = "Say" in str(seen[-1])
        return web.json_response({"action": "block" if said else "allow", "reason": "Not said here."})

    async with aiohttp_server(guard) as origin:
        made = config(behind, tmp_path, guardrails={"words": {"url": f"{origin}/check"}})
        async with line(made) as gate:
            got = await door(gate, KEY)
            assert got.status == 400 and seen, got.body
    assert not behind.asked
