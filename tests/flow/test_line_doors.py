"""Steps of runs and workflows come in as requests do: by what their key may do when they are asked, within its limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from store.people.limits import Limits, Terms
from tests.flow.line import Asked, Line, Upstream, line
from tests.flow.line import upstream as scripted
from tests.flow.test_line_runs import EXACT_ONLY, KEY, prompt, say
from tests.patience import until

WORKFLOW = {
    "inputs": {"question": "last_user"},
    "steps": {"answer": {"chat": "{{question}}", "model": "m"}},
    "output": "answer",
}


@dataclass
class Doors:
    """A gateway with keys, whose upstream answers when it is let, and counts who is under way."""

    gate: Line
    behind: Upstream
    let: asyncio.Event
    under_way: int = 0
    most: int = 0

    async def script(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.let.wait()
            return await say(request, asked, f"<{prompt(asked)}>")
        finally:
            self.under_way -= 1

    async def key(self, name: str, **terms: Any) -> tuple[str, dict[str, str]]:
        """Id and headers of a new key."""
        memory = self.gate.gateway.memory
        assert memory is not None
        keys = memory.store.keys
        key, secret = await asyncio.to_thread(keys.create, "acme", name, terms=Terms(**terms))
        await until(lambda: keys.lookup(secret) is not None, "the key known")
        return key.id, {"Authorization": f"Bearer {secret}"}


@pytest.fixture
async def doors(tmp_path: Path) -> AsyncIterator[Doors]:
    async with scripted() as behind:
        config = {
            "upstream": {"base_url": behind.url, "api_key": "sk-up"},
            "engines": {"big": {"kind": "openai", "base_url": behind.url, "api_key": "sk-up"}},
            "models": {"m": {"engines": ["big"], "policy": "fixed"}},
            "memory": {"data_dir": str(tmp_path), **EXACT_ONLY},
            "workflows": {"flow": WORKFLOW},
        }
        async with line(config) as gate:
            made = Doors(gate, behind, asyncio.Event())
            behind.script = made.script
            made.let.set()
            yield made


def chain(length: int) -> dict[str, Any]:
    """A run each of whose steps reads the one before."""
    steps = [
        {
            "model": "m",
            "messages": [{"role": "user", "content": f"{{{{s{at - 1}}}}}" if at else "begin"}],
            "understudy": {"output": {"name": f"s{at}"}},
        }
        for at in range(length)
    ]
    return {"steps": steps, "background": True}


def wide(width: int, **more: Any) -> dict[str, Any]:
    """A run of steps that wait for nothing."""
    steps = [
        {
            "model": "m",
            "messages": [{"role": "user", "content": f"part {at}"}],
            "understudy": {"output": {"name": f"w{at}"}},
        }
        for at in range(width)
    ]
    return {"steps": steps, **more}


@pytest.mark.parametrize(
    "field",
    [
        {"model": "ft:gpt-4o:other-tenant::abc"},
        {"store": True},
        {"messages": [{"role": "assistant", "content": None, "audio": {"id": "audio_of_another"}}]},
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]},
    ],
)
async def test_what_a_chat_completion_may_not_name_a_step_may_not(
    doors: Doors, field: dict[str, Any]
) -> None:
    _, key = await doors.key("steps")
    step = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Q"}], **field}
    got = await doors.gate.post("/runs", {"steps": [step]}, key)
    alone = await doors.gate.post("/chat/completions", step, key)
    assert (got.status, alone.status) == (403, 403)
    assert got.json["error"]["code"] == alone.json["error"]["code"] == "endpoint_not_allowed"
    assert not doors.behind.asked


async def test_a_workflows_steps_ask_for_what_their_key_may_ask(doors: Doors) -> None:
    _, key = await doors.key("values", limits=Limits(models=("flow",)))
    got = await doors.gate.post(
        "/chat/completions", {"model": "flow", "messages": [{"role": "user", "content": "Q"}]}, key
    )
    assert got.status >= 400 and "model_not_allowed" in got.body.decode()
    assert not doors.behind.asked


async def test_a_workflow_is_a_model_by_whatever_name_it_is_called(doors: Doors) -> None:
    _, key = await doors.key("narrow", limits=Limits(models=("m",)))
    for path, body in (
        ("/chat/completions", {"model": "flow", "messages": [{"role": "user", "content": "Q"}]}),
        ("/runs", {"workflow": "flow", "inputs": {"question": "Q"}}),
    ):
        refused = await doors.gate.post(path, body, key)
        assert (refused.status, refused.json["error"]["code"]) == (403, "model_not_allowed"), path


async def test_who_has_to_name_a_user_has_to_at_runs_too(doors: Doors) -> None:
    _, key = await doors.key("named", users_required=True)
    for body in (wide(1), {"workflow": "flow", "inputs": {"question": "Q"}}):
        refused = await doors.gate.post("/runs", body, key)
        assert (refused.status, refused.json["error"]["code"]) == (400, "user_required")
        assert (await doors.gate.post("/runs", body, key | {"x-understudy-user": "ann"})).status == 200


async def test_steps_wait_for_their_turn_and_none_fails(doors: Doors) -> None:
    _, key = await doors.key("turns", limits=Limits(concurrency=2))
    doors.let.clear()
    run = asyncio.create_task(doors.gate.post("/runs", wide(8), key))
    await until(lambda: doors.under_way == 2, "two are under way")
    doors.let.set()
    got = await run
    assert got.status == 200 and got.json["status"] == "done", got.body
    assert doors.most == 2 and len(doors.behind.asked) == 8


async def test_a_workflow_called_by_a_key_of_one_request_at_once_is_answered(doors: Doors) -> None:
    _, key = await doors.key("one", limits=Limits(concurrency=1))
    body = {"model": "flow", "messages": [{"role": "user", "content": "Q"}]}
    got = await doors.gate.post("/chat/completions", body, key)
    assert (got.status, got.text) == (200, "<Q>")


async def test_a_step_counts_as_a_request(doors: Doors) -> None:
    _, key = await doors.key("rate", limits=Limits(requests_per_minute=4))
    got = await doors.gate.post("/runs", {**wide(8), "background": True, "budget": {"seconds": 600}}, key)
    assert got.status == 202
    await until(lambda: len(doors.behind.asked) == 3, "all that the minute has room for")
    body = {"model": "m", "messages": [{"role": "user", "content": "Q"}]}
    assert (await doors.gate.post("/chat/completions", body, key)).status == 429
    assert len(doors.behind.asked) == 3


async def test_a_revoked_key_ends_what_it_began(doors: Doors) -> None:
    id, key = await doors.key("gone")
    doors.let.clear()
    got = await doors.gate.post("/runs", chain(5), key)
    assert got.status == 202
    await until(lambda: doors.under_way == 1, "the first is under way")
    memory = doors.gate.gateway.memory
    assert memory is not None
    keys, runs = memory.store.keys, memory.store.runs
    await asyncio.wrap_future(keys.revoke(id))
    await until(lambda: keys.in_force(id) is None, "it is revoked")
    doors.let.set()

    def ended() -> bool:
        whole = runs.run(got.json["id"])
        return whole is not None and whole.run.state == "failed"

    await until(ended, "the run ends")
    assert len(doors.behind.asked) == 1
    whole = runs.run(got.json["id"])
    assert whole is not None
    codes = {step.progress.failure.code for step in whole.steps if step.progress.failure is not None}
    assert "invalid_api_key" in codes


async def test_what_a_key_may_reach_is_looked_up_for_each_step(doors: Doors) -> None:
    id, key = await doors.key("narrowed")
    doors.let.clear()
    got = await doors.gate.post("/runs", chain(3), key)
    await until(lambda: doors.under_way == 1, "the first is under way")
    memory = doors.gate.gateway.memory
    assert memory is not None
    keys, runs = memory.store.keys, memory.store.runs
    narrow = Limits(models=("other",))
    await asyncio.to_thread(keys.edit, id, lambda one: replace(one, limits=narrow))

    def narrowed() -> bool:
        found = keys.in_force(id)
        return found is not None and found[0].limits.models == ("other",)

    await until(narrowed, "it is narrowed")
    doors.let.set()

    def ended() -> bool:
        whole = runs.run(got.json["id"])
        return whole is not None and whole.run.state == "failed"

    await until(ended, "the run ends")
    assert len(doors.behind.asked) == 1


# ---- a run's own budget, and its failures

PRICE = {"input_usd_per_mtok": 0.0, "output_usd_per_mtok": 1000.0}


async def test_a_step_waits_for_its_turn_no_longer_than_a_run_may_wait(tmp_path: Path) -> None:
    async with scripted() as behind:
        config = {
            "engines": {"big": {"kind": "openai", "base_url": behind.url, "api_key": "sk-up"}},
            "models": {"m": {"engines": ["big"], "policy": "fixed"}},
            "memory": {"data_dir": str(tmp_path), **EXACT_ONLY},
            "workflows": {"max_wait_s": 1},
        }
        async with line(config) as gate:
            made = Doors(gate, behind, asyncio.Event())
            behind.script = made.script
            made.let.set()
            _, key = await made.key("full", limits=Limits(requests_per_minute=3))
            got = await gate.post("/runs", wide(4), key)
    assert (got.status, got.json["error"]["code"]) == (429, "rate_limit_exceeded")
    assert len(behind.asked) == 2


@pytest.fixture
async def priced(tmp_path: Path) -> AsyncIterator[Doors]:
    """A step whose answer has three tokens is charged three thousandths of a dollar."""
    async with scripted() as behind:
        engine = {"kind": "openai", "base_url": behind.url, "api_key": "sk-up"}
        config = {
            "engines": {"big": engine | {"price": PRICE}, "free": engine},
            "models": {
                "m": {"engines": ["big"], "policy": "fixed"},
                "n": {"engines": ["free"], "policy": "fixed"},
            },
            "memory": {"data_dir": str(tmp_path), **EXACT_ONLY},
            "workflows": {"flow": WORKFLOW | {"steps": {"answer": {"chat": "{{question}}", "model": "n"}}}},
        }
        async with line(config) as gate:
            made = Doors(gate, behind, asyncio.Event())
            behind.script = made.script
            made.let.set()
            yield made


@pytest.mark.parametrize("said", [{"max_tokens": 3}, {}])
async def test_a_wide_run_passes_its_budget_by_one_step_at_most(priced: Doors, said: dict[str, Any]) -> None:
    steps = [step | said for step in wide(12)["steps"]]
    got = await priced.gate.post("/runs", {"steps": steps, "budget": {"usd": 0.010}}, KEY)
    assert got.json["status"] == "failed" and got.json["error"]["code"] == "budget_exceeded"
    assert 3 <= len(priced.behind.asked) <= 4
    assert got.json["cost_usd"] == pytest.approx(0.003 * len(priced.behind.asked))


async def test_a_budget_of_dollars_needs_prices(priced: Doors) -> None:
    steps = [{**step, "model": "n"} for step in wide(2)["steps"]]
    for body in ({"steps": steps}, {"workflow": "flow", "inputs": {"question": "Q"}}):
        got = await priced.gate.post("/runs", {**body, "budget": {"usd": 1}}, KEY)
        assert (got.status, got.json["error"]["code"]) == (400, "unpriced")
        assert got.json["error"]["param"] == "budget.usd" and "'free'" in got.json["error"]["message"]
    assert not priced.behind.asked


async def test_a_run_that_somebody_waits_for_answers_with_the_error_of_its_step(doors: Doors) -> None:
    async def refuses(request: web.Request, asked: Asked) -> web.StreamResponse:
        error = {"message": "no such words", "type": "invalid_request_error", "code": "policy"}
        return web.json_response({"error": error}, status=422)

    doors.behind.script = refuses
    body = wide(1)
    body["steps"].append(
        {
            "model": "m",
            "messages": [{"role": "user", "content": "of {{w0}}"}],
            "understudy": {"output": {"name": "end"}},
        }
    )
    _, key = await doors.key("waits")
    for headers in (key | {"Idempotency-Key": "a"},) * 2:
        got = await doors.gate.post("/runs", body, headers)
        assert (got.status, got.json["status"]) == (422, "failed")
        assert got.json["error"]["code"] == "step_failed" and "no such words" in got.json["error"]["message"]
        assert got.json["error"]["chain"] == ["w0"] and got.headers["x-understudy-run"] == got.json["id"]
