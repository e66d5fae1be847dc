"""Calls that feed each other over real sockets: submits, gets, runs, streams, failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.flow.line import Asked, Got, Line, Upstream, completion, line
from tests.flow.line import upstream as scripted

EXACT_ONLY = {"examples": {"enabled": False}, "exact": {"enabled": False}}
NO_STORE = {"Cache-Control": "no-store"}
KEY = {"Authorization": "Bearer sk-ann"}


def prompt(asked: Asked) -> str:
    """The last message's text."""
    return str(asked.json["messages"][-1]["content"])


async def echo(request: web.Request, asked: Asked) -> web.StreamResponse:
    """Says what it was asked, in angle brackets."""
    return await say(request, asked, f"<{prompt(asked)}>")


async def say(request: web.Request, asked: Asked, text: str) -> web.StreamResponse:
    if not asked.json.get("stream"):
        return web.json_response(completion(text))
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in (*(text[at : at + 5] for at in range(0, len(text), 5)), None):
        await response.write(event(piece))
    await response.write(b"data: [DONE]\n\n")
    return response


def event(piece: str | None) -> bytes:
    """A chunk of an answer; None: its end, with usage."""
    choice = {"index": 0, "delta": {} if piece is None else {"content": piece}, "finish_reason": None}
    chunk: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    if piece is None:
        choice["finish_reason"] = "stop"
        chunk["usage"] = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return b"data: " + json.dumps(chunk | {"choices": [choice]}).encode() + b"\n\n"


@pytest.fixture
async def behind() -> AsyncIterator[Upstream]:
    async with scripted() as made:
        made.script = echo
        yield made


def config(behind: Upstream, tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {
        "engines": {"big": {"kind": "openai", "base_url": behind.url, "api_key": "sk-up"}},
        "models": {"m": {"engines": ["big"]}},
        "memory": {"data_dir": str(tmp_path / "data"), **EXACT_ONLY},
        **more,
    }


@pytest.fixture
async def gate(behind: Upstream, tmp_path: Path) -> AsyncIterator[Line]:
    async with line(config(behind, tmp_path)) as made:
        yield made


def body(text: str, **understudy: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], "understudy": understudy}


async def submit(gate: Line, text: str, name: str, app: str = "a", **more: Any) -> dict[str, Any]:
    asked = body(text, app=app, submit=True, output={"name": name, **more.pop("output", {})}, **more)
    got = await gate.post("/chat/completions", asked, KEY)
    assert got.status == 202, got.body
    return got.json


async def get(gate: Line, path: str, **headers: str) -> Got:
    async with gate.session.get(gate.url + path, headers=KEY | headers) as response:
        return Got(response.status, response.headers.copy(), await response.read())


async def test_two_submits_that_feed_each_other_and_a_get(gate: Line, behind: Upstream) -> None:
    first = await submit(gate, "Write {{task}}", "code", inputs={"task": "a game"})
    assert first["choices"] == [] and first["object"] == "chat.completion"
    second = await submit(gate, "Test: {{code}}", "tests")
    id = second["understudy"]["outputs"]["tests"]
    got = await get(gate, f"/variables/{id}?wait_s=30")
    assert got.status == 200 and got.json["value"] == "<Test: <Write a game>>"
    assert (await get(gate, "/apps/a/variables/code?wait_s=30")).json["value"] == "<Write a game>"
    assert [prompt(each) for each in behind.asked] == ["Write a game", "Test: <Write a game>"]
    assert not any("understudy" in each.json for each in behind.asked)
    assert behind.asked[0].headers["Authorization"] == "Bearer sk-up"


async def test_the_last_step_is_an_ordinary_call(gate: Line) -> None:
    await submit(gate, "One", "one")
    got = await gate.post("/chat/completions", body("Two {{one}}", app="a"), KEY)
    assert got.status == 200 and got.text == "<Two <One>>" and got.headers["x-understudy-run"]
    streamed = await gate.post("/chat/completions", body("3 {{one}}", app="a") | {"stream": True}, KEY)
    assert streamed.text == "<3 <One>>"


# ---- all at once


def run_of(*steps: tuple[str, str], **more: Any) -> dict[str, Any]:
    """A run of (prompt, output's name)."""
    return {"steps": [body(text, output={"name": name}) for text, name in steps], **more}


async def test_a_run_in_any_order_is_answered_with_its_values(gate: Line) -> None:
    asked = run_of(("C {{b}}", "c"), ("B {{a}} {{x}}", "b"), ("A", "a"), inputs={"x": "y"})
    got = await gate.post("/runs", asked, KEY)
    run = got.json
    assert got.status == 200 and run["status"] == "done" and got.headers["x-understudy-run"] == run["id"]
    assert run["variables"]["c"]["value"] == "<C <B <A> y>>"
    assert [step["status"] for step in run["steps"]] == ["done"] * 3
    for step in run["steps"]:
        moments = list(step["times"].values())
        assert None not in moments and moments == sorted(moments)
    assert run["usage"]["prompt_tokens"] == 21 and run["round_trips_saved"] == 2
    again = (await get(gate, f"/runs/{run['id']}")).json
    assert again["variables"] == run["variables"]


async def test_steps_that_nobody_reads_along_are_asked_for_whole(gate: Line, behind: Upstream) -> None:
    for more, streamed in (({}, False), ({"get": {"b": "ttft"}}, True), ({"get": {"b": "latency"}}, False)):
        behind.asked.clear()
        got = await gate.post("/runs", run_of(("A", "a"), ("B {{a}}", "b"), **more), KEY)
        assert got.json["variables"]["b"]["value"] == "<B <A>>"
        assert [bool(each.json.get("stream")) for each in behind.asked] == [streamed] * 2
        assert got.json["usage"]["prompt_tokens"] > 0


async def test_a_run_with_large_values_is_answered_whole(gate: Line) -> None:
    """Whoever asks: the answer goes out in pieces, by a connection of ours or by aiohttp's."""
    large = "x" * 100_000
    asked = run_of(("A {{x}}", "a"), ("B", "b"), inputs={"x": large})
    for more in ({}, {"Connection": "close"}):
        got = await gate.post("/runs", asked, KEY | more)
        assert got.status == 200 and got.json["variables"]["a"]["value"] == f"<A {large}>"
        again = await get(gate, f"/runs/{got.json['id']}")
        assert again.json["variables"] == got.json["variables"]


async def test_a_run_with_large_values_is_told_as_any_other(gate: Line) -> None:
    asked = run_of(("A" * 200_000, "a"), ("B", "b"), background=True)
    id = (await gate.post("/runs", asked, KEY)).json["variables"]["a"]["id"]
    assert (await get(gate, f"/variables/{id}?wait_s=30")).status == 200
    answered = await gate.post("/runs", asked | {"background": False}, KEY)
    told = await get(gate, f"/runs/{answered.json['id']}")
    assert told.status == 200 and told.headers["x-understudy-run"] == told.json["id"]
    assert told.json == answered.json and told.json["variables"]["b"]["value"] == "<B>"
    assert told.json["variables"]["a"]["value"] == "<" + "A" * 200_000 + ">"


async def test_a_chain_of_twenty_and_a_map_reduce_of_twenty(gate: Line, behind: Upstream) -> None:
    chain = run_of(*((f"{i} {{{{v{i - 1}}}}}" if i else "0", f"v{i}") for i in range(20)))
    expected = "<0>"
    for i in range(1, 20):
        expected = f"<{i} {expected}>"
    assert (await gate.post("/runs", chain, KEY)).json["variables"]["v19"]["value"] == expected
    mapped = [(f"chunk {i}", f"m{i}") for i in range(20)]
    reduce = " ".join(f"{{{{m{i}}}}}" for i in range(20))
    got = (await gate.post("/runs", run_of(*mapped, (reduce, "all")), KEY)).json
    assert got["variables"]["all"]["value"] == f"<{' '.join(f'<chunk {i}>' for i in range(20))}>"
    assert {step["class"] for step in got["steps"][:20]} == {"group"}
    assert got["steps"][20]["class"] == "latency"
    assert len(behind.asked) == 41


async def test_a_background_run_and_its_get(gate: Line) -> None:
    got = await gate.post("/runs", run_of(("A", "a"), ("B {{a}}", "b"), background=True), KEY)
    assert got.status == 202
    id = got.json["variables"]["b"]["id"]
    assert (await get(gate, f"/variables/{id}?wait_s=30&criteria=latency")).json["value"] == "<B <A>>"


async def test_a_repeat_with_an_idempotency_key_is_the_first_run(gate: Line, behind: Upstream) -> None:
    key = KEY | {"Idempotency-Key": "once"}
    first = await gate.post("/runs", run_of(("A", "a")), key)
    second = await gate.post("/runs", run_of(("A", "a")), key)
    assert second.json == first.json and len(behind.asked) == 1
    other = await gate.post("/runs", run_of(("B", "a")), key)
    assert other.status == 409 and other.json["error"]["code"] == "idempotency_conflict"
    assert other.headers["x-should-retry"] == "false"
    asked = body("A", app="i", submit=True, output={"name": "a"})
    one = await gate.post("/chat/completions", asked, KEY | {"Idempotency-Key": "k"})
    two = await gate.post("/chat/completions", asked, KEY | {"Idempotency-Key": "k"})
    assert one.json["understudy"] == two.json["understudy"]


async def test_a_run_told_by_events(gate: Line) -> None:
    asked = run_of(("A", "a"), ("B {{a}}", "b"), stream=True, get={"b": "ttft"})
    got = await gate.post("/runs", asked, KEY)
    kinds = [each["type"] for each in got.events]
    assert kinds[0] == "run.created" and kinds[-1] == "run.completed"
    deltas = "".join(e["delta"] for e in got.events if e["type"] == "variable.delta")
    assert deltas == "<B <A>>"
    assert [e["sequence_number"] for e in got.events] == list(range(len(kinds)))
    assert got.events[-1]["run"]["variables"]["b"]["value"] == "<B <A>>"


# ---- streams


class Slow:
    """Says `pieces`, each when it is let."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces
        self.let = asyncio.Semaphore(0)
        self.left = asyncio.Event()
        self.begun = asyncio.Event()

    async def script(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self.begun.set()
        try:
            for piece in self.pieces:
                await self._allowed(request)
                await response.write(event(piece))
            await response.write(event(None) + b"data: [DONE]\n\n")
        except (ConnectionError, asyncio.CancelledError):
            self.left.set()
            raise
        return response

    async def _allowed(self, request: web.Request) -> None:
        while self.let.locked():
            await asyncio.sleep(0.01)
            if request.transport is None or request.transport.is_closing():
                raise ConnectionResetError
        await self.let.acquire()


class Reading:
    """Reads events as they come."""

    def __init__(self, response: Any) -> None:
        self._response = response

    async def next(self) -> dict[str, Any]:
        while line := await self._response.content.readline():
            if line.startswith(b"data: "):
                return dict(json.loads(line[6:]))
        raise AssertionError("the stream ended")


async def test_a_stream_is_told_as_it_comes_and_resumed(gate: Line, behind: Upstream) -> None:
    slow = Slow("one ", "two ", "three")
    behind.script = slow.script
    id = (await submit(gate, "Count", "n"))["understudy"]["outputs"]["n"]
    url = f"{gate.url}/variables/{id}?stream=true"
    async with gate.session.get(url, headers=KEY) as response:
        events = Reading(response)
        assert (await events.next())["type"] == "variable.created"
        slow.let.release()
        first = await events.next()
        assert first["delta"] == "one "
        slow.let.release()
        assert (await events.next())["delta"] == "two "
    async with gate.session.get(f"{url}&starting_after={first['sequence_number']}", headers=KEY) as response:
        events = Reading(response)
        assert (await events.next())["delta"] == "two "
        slow.let.release()
        assert (await events.next())["delta"] == "three"
        last = await events.next()
    assert last["type"] == "variable.done" and last["variable"]["value"] == "one two three"
    whole = await get(gate, f"/variables/{id}?stream=true")
    assert [e["type"] for e in whole.events] == ["variable.created", "variable.delta", "variable.done"]
    after = await get(gate, f"/variables/{id}?stream=true&starting_after={last['sequence_number']}")
    assert after.events == []


async def test_a_get_tells_what_is_pending(gate: Line, behind: Upstream) -> None:
    slow = Slow("x")
    behind.script = slow.script
    id = (await submit(gate, "Q", "n"))["understudy"]["outputs"]["n"]
    pending = await get(gate, f"/variables/{id}?wait_s=0.05")
    assert pending.status == 202 and pending.json["value"] is None
    slow.let.release()
    assert (await get(gate, f"/variables/{id}?wait_s=30")).json["value"] == "x"


# ---- failures, and clients that leave


async def test_a_failure_fails_what_depends_on_it_unasked_and_nothing_else(
    gate: Line, behind: Upstream
) -> None:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        if "bad" in prompt(asked):
            return web.json_response({"error": {"message": "no bad words", "code": "policy"}}, status=400)
        return await echo(request, asked)

    behind.script = script
    asked = run_of(("bad", "a"), ("B {{a}}", "b"), ("C {{b}}", "c"), ("D", "d"))
    run = (await gate.post("/runs", asked, KEY)).json
    assert run["status"] == "failed" and run["variables"]["d"]["value"] == "<D>"
    assert len(behind.asked) == 2
    got = await get(gate, f"/variables/{run['variables']['c']['id']}")
    assert got.status == 424 and got.json["error"]["code"] == "producer_failed"
    assert got.json["error"]["chain"] == ["c", "b", "a"] and "no bad words" in got.json["error"]["message"]
    assert run["variables"]["a"]["error"]["status"] == 400


async def test_a_transform_that_does_not_match_fails_its_variable(gate: Line) -> None:
    outputs = [{"name": "x", "transform": [{"regex": "z+"}]}, {"name": "y", "transform": ["strip"]}]
    run = (await gate.post("/runs", {"steps": [body("A", outputs=outputs)]}, KEY)).json
    assert run["variables"]["y"]["value"] == "<A>"
    assert run["variables"]["x"]["error"]["code"] == "transform_failed"
    assert run["variables"]["x"]["value"] is None


async def test_a_call_whose_input_failed_is_told_so(gate: Line, behind: Upstream) -> None:
    behind.script = None
    behind.says = "words"
    await submit(gate, "A", "x", output={"transform": [{"json": "/a"}]})
    got = await gate.post("/chat/completions", body("{{x}}", app="a"), KEY)
    assert got.status == 424 and got.json["error"]["code"] == "producer_failed"


async def test_a_client_that_leaves_cancels_its_run_and_no_background_run(
    gate: Line, behind: Upstream
) -> None:
    for background in (False, True):
        slow = Slow("x")
        behind.script = slow.script
        asked = run_of(("A", "a"), ("B {{a}}", "b"), background=background, stream=True)
        data = json.dumps(asked).encode()
        headers = KEY | {"Content-Type": "application/json"}
        async with gate.session.post(gate.url + "/runs", data=data, headers=headers) as response:
            run = (await Reading(response).next())["run"]["id"]
            await slow.begun.wait()
            response.close()
        if background:
            slow.let.release(), slow.let.release()
        else:
            await slow.left.wait()
        variable = (await get(gate, f"/runs/{run}")).json["variables"]["b"]["id"]
        got = await get(gate, f"/variables/{variable}?wait_s=30")
        assert got.status == (200 if background else 424), got.body


async def test_a_cancelled_run_stops_its_engine(gate: Line, behind: Upstream) -> None:
    slow = Slow("x")
    behind.script = slow.script
    got = await gate.post("/runs", run_of(("A", "a"), ("B {{a}}", "b"), background=True), KEY)
    await slow.begun.wait()
    cancelled = await gate.post(f"/runs/{got.json['id']}/cancel", {}, KEY)
    assert cancelled.json["status"] == "cancelled"
    await slow.left.wait()
    assert (await get(gate, f"/variables/{got.json['variables']['b']['id']}")).status == 424


async def test_an_app_is_cancelled_and_forgotten(gate: Line, behind: Upstream) -> None:
    slow = Slow("x")
    behind.script = slow.script
    id = (await submit(gate, "Q", "n", app="gone"))["understudy"]["outputs"]["n"]
    await slow.begun.wait()
    async with gate.session.delete(gate.url + "/apps/gone", headers=KEY) as response:
        assert (await response.json())["deleted"] is True
    await slow.left.wait()
    assert (await get(gate, f"/variables/{id}")).status == 404
    behind.script = echo
    await submit(gate, "Q", "n", app="gone")


async def test_a_budget_ends_a_run(gate: Line, behind: Upstream) -> None:
    asked = run_of(("A", "a"), ("B {{a}}", "b"), budget={"tokens": 5})
    run = (await gate.post("/runs", asked, KEY)).json
    assert run["status"] == "failed" and run["error"]["code"] == "budget_exceeded"
    assert len(behind.asked) == 1 and run["variables"]["a"]["value"] == "<A>"
    slow = Slow("x")
    behind.script = slow.script
    run = (await gate.post("/runs", run_of(("A", "a"), budget={"seconds": 0.1}), KEY)).json
    assert run["error"]["code"] == "budget_exceeded"
    await slow.left.wait()


# ---- variables without producers


async def test_a_variable_is_declared_set_once_and_read(gate: Line) -> None:
    async def put(fields: Any) -> Got:
        async with gate.session.put(gate.url + "/apps/p/variables/v", json=fields, headers=KEY) as response:
            return Got(response.status, response.headers.copy(), await response.read())

    declared = await put({})
    assert declared.json["status"] == "pending"
    waiting = await submit(gate, "V: {{v}}", "w", app="p")
    assert (await put({"value": "now"})).json["id"] == declared.json["id"]
    got = await get(gate, f"/variables/{waiting['understudy']['outputs']['w']}?wait_s=30")
    assert got.json["value"] == "<V: now>"
    again = await put({"value": "other"})
    assert again.status == 409 and again.json["error"]["code"] == "variable_exists"


# ---- what is refused


@pytest.mark.parametrize(
    ("asked", "status", "code", "param"),
    [
        (body("{{x}}", submit=True, output={"name": "a"}), 400, "unknown_name", "messages"),
        (body("{{x}}", app="n", submit=True, output={"name": "a"}), 400, "unknown_name", "messages"),
        (body("A", submit=True, output={"name": "a", "transform": ["shout"]}), 400, None,
         "understudy.output.transform[0]"),
        (body("A", submit=True, output={"name": "a"}) | {"model": "ghost"}, 404, "model_not_found", "model"),
        (body("{{x}}", inputs={"x": {"variable": "var_" + "0" * 32}}, submit=True, output={"name": "a"}),
         404, "variable_not_found", None),
        (body("A", nonsense=1), 400, "unknown_field", "understudy.nonsense"),
    ],
)  # fmt: skip
async def test_bad_input_is_refused_with_field_and_reason(
    gate: Line, asked: dict[str, Any], status: int, code: str | None, param: str | None
) -> None:
    got = await gate.post("/chat/completions", asked, KEY)
    error = got.json["error"]
    assert got.status == status and error["param"] == param, got.body
    assert code is None or error["code"] == code


async def test_a_name_is_taken_once_and_a_cycle_is_listed(gate: Line) -> None:
    await submit(gate, "A", "a")
    again = body("A", app="a", submit=True, output={"name": "a"})
    got = await gate.post("/chat/completions", again, KEY)
    assert got.status == 409 and got.json["error"]["code"] == "variable_exists"
    assert got.headers["x-should-retry"] == "false"
    circle = await gate.post("/runs", run_of(("{{b}}", "a"), ("{{a}}", "b")), KEY)
    assert circle.status == 400 and circle.json["error"]["code"] == "cycle"


async def test_without_memory_there_are_no_variables(behind: Upstream) -> None:
    plain = {
        "engines": {"big": {"kind": "openai", "base_url": behind.url}},
        "models": {"m": {"engines": ["big"]}},
    }
    async with line(plain) as gate:
        got = await gate.post("/chat/completions", body("A", submit=True, output={"name": "a"}), KEY)
    assert got.status == 400 and got.json["error"]["code"] == "no_memory" and not behind.asked


async def test_another_tenants_variables_and_runs_are_not_there(gate: Line) -> None:
    run = (await gate.post("/runs", run_of(("A", "a"), app="t"), KEY)).json
    variable = run["variables"]["a"]["id"]
    bob = {"Authorization": "Bearer sk-bob"}
    for path in (f"/variables/{variable}", "/apps/t/variables/a", f"/runs/{run['id']}"):
        assert (await get(gate, path)).status == 200
        assert (await get(gate, path, **bob)).status == 404
    absent = await get(gate, "/variables/var_" + "0" * 32)
    theirs = await get(gate, f"/variables/{variable}", **bob)
    assert absent.body == theirs.body
    asked = body("{{x}}", inputs={"x": {"variable": variable}}, submit=True, output={"name": "b"})
    assert (await gate.post("/chat/completions", asked, bob)).status == 404
    async with gate.session.delete(f"{gate.url}/runs/{run['id']}", headers=bob) as response:
        assert response.status == 404


async def test_nothing_is_stored_of_a_run_that_asks_for_it(gate: Line, tmp_path: Path) -> None:
    asked = run_of(("A canary-4711", "a"), app="ns")
    got = await gate.post("/runs", asked, KEY | {"Cache-Control": "no-store"})
    assert got.json["variables"]["a"]["value"] == "<A canary-4711>"
    # It ended with its connection.
    later = await get(gate, f"/variables/{got.json['variables']['a']['id']}?wait_s=30")
    assert (later.status, later.json["error"]["code"]) == (409, "value_not_stored")
    then = await gate.post("/chat/completions", body("B {{a}}", app="ns"), KEY)
    assert (then.status, then.json["error"]["code"]) == (424, "producer_failed")
    await gate.settled()
    for file in (tmp_path / "data").rglob("*"):
        if file.is_file():
            assert b"canary-4711" not in file.read_bytes(), file


@pytest.mark.parametrize(
    ("path", "asked", "headers"),
    [
        ("/runs", run_of(("A {{x}}", "a"), app="n", background=True), NO_STORE),
        ("/runs", run_of(("A {{x}}", "a"), app="n", background=True, stream=True), NO_STORE),
        ("/runs", {"steps": [body("A", output={"name": "a"}) | {"store": False}], "background": True}, {}),
        ("/runs", {"workflow": "echo", "inputs": {"x": "y"}, "background": True}, NO_STORE),
        ("/chat/completions", body("A {{x}}", app="n", submit=True, output={"name": "a"}), NO_STORE),
        ("/chat/completions", body("A", submit=True, output={"name": "a"}) | {"store": False}, {}),
    ],
)
async def test_a_run_in_the_background_that_may_not_be_stored_is_refused(
    behind: Upstream, tmp_path: Path, path: str, asked: dict[str, Any], headers: dict[str, str]
) -> None:
    echo = {"inputs": {"x": "text"}, "steps": {"a": {"chat": "{{x}}", "model": "m"}}, "output": "a"}
    async with line(config(behind, tmp_path, workflows={"echo": echo})) as gate:
        got = await gate.post(path, asked, KEY | headers)
        assert (got.status, got.json["error"]["code"]) == (400, "background_not_stored"), got.body
        assert not behind.asked


# ---- limits, what is never told, and how urgent calls are


@pytest.mark.slow
async def test_values_steps_and_runs_have_their_limits(behind: Upstream, tmp_path: Path) -> None:
    limits = {"max_steps": 2, "max_value_kib": 0.1, "max_runs": 1, "max_total_mib": 0.002}
    async with line(config(behind, tmp_path, workflows=limits)) as gate:
        got = await gate.post("/runs", run_of(("A", "a"), ("B", "b"), ("C", "c")), KEY)
        assert (got.status, got.json["error"]["code"]) == (400, "too_many_steps")
        got = await gate.post("/runs", run_of(("{{x}}", "a"), inputs={"x": "y" * 200}), KEY)
        assert (got.status, got.json["error"]["code"]) == (413, "value_too_large")
        got = await gate.post("/runs", run_of(("A" * 3000, "a")), KEY)
        assert (got.status, got.json["error"]["code"]) == (413, "total_too_large")
        long = (await gate.post("/runs", run_of(("A" * 150, "a")), KEY)).json
        assert long["variables"]["a"]["error"]["code"] == "value_too_large"
        slow = Slow("x")
        behind.script = slow.script
        assert (await gate.post("/runs", run_of(("A", "a"), background=True), KEY)).status == 202
        got = await gate.post("/runs", run_of(("B", "b")), KEY)
        assert (got.status, got.json["error"]["code"]) == (429, "too_many_runs") and got.headers[
            "Retry-After"
        ]


async def test_a_prompt_that_is_too_long_with_its_values_is_refused(
    behind: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.setup.runs.MOST_PROMPT_CHARACTERS", 50)
    async with line(config(behind, tmp_path)) as gate:
        for more in ({}, {"output": {"name": "a"}}):
            asked = body("{{x}}" * 10, app="long", inputs={"x": "abcdefgh"}, **more)
            got = await gate.post("/chat/completions", asked, KEY)
            error = got.json["error"]
            assert (got.status, error["code"], error["param"]) == (413, "request_too_large", "messages")
        failed = await get(gate, "/apps/long/variables/a")
        assert failed.status == 424 and "request_too_large" in failed.json["error"]["message"]
    assert not behind.asked


async def test_calls_may_join_a_run_while_its_events_are_told(gate: Line, behind: Upstream) -> None:
    slow = Slow("x", "y")
    behind.script = slow.script
    asked = run_of(("A", "a"), ("B {{a}}", "b"), ("C {{a}}", "c"), app="joined", stream=True)
    run = asyncio.create_task(gate.post("/runs", asked, KEY))
    await slow.begun.wait()
    behind.script = echo
    for n in range(5):
        await submit(gate, f"{n}", f"more{n}", app="joined")
    for _ in range(2):
        slow.let.release()
    kinds = [each["type"] for each in (await run).events]
    assert kinds[-1] == "run.completed" and kinds.count("variable.done") == 8


async def test_a_plain_call_says_how_urgent_it_is(gate: Line, behind: Upstream) -> None:
    for tier in ("flex", "priority", "default"):
        got = await gate.chat("Q", KEY, model="m", service_tier=tier)
        assert got.status == 200 and behind.asked[-1].json["service_tier"] == tier
    steps = run_of(("A", "a"))
    steps["steps"][0]["service_tier"] = "flex"
    await gate.post("/runs", steps, KEY)
    assert behind.asked[-1].json["service_tier"] == "flex"
