"""Over a real store and a real server: what is used most is planned, warmed once while it is quiet, and paid for in view."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from engines.engine import EngineInfo, Price
from engines.openai_http import OpenAIHTTP
from learning.bank.warm.metrics import KvMetrics
from learning.bank.warm.planner import KvPlanner, Room
from learning.bank.warm.value import Line
from learning.replay.asking import always
from store.decisions.requests import DecisionLog
from store.examples.bank import ExampleBank
from store.jobs.kv_plans import KvPlans
from store.jobs.replay_jobs import ReplayJobs
from store.sqlite.database import Database
from tests.flow.line import Asked, Upstream, completion, upstream
from tests.knobs import timeouts
from tests.store.rows import new_example, request_record
from understudy.settings.replay import KvPlanEngineSettings
from understudy.setup.replayer import room

NOW = 1_700_000_000.0
ROOM = Room(blocks=8, block_tokens=16, load=Line(0, 0), warm=True)


@pytest.fixture
async def server() -> AsyncIterator[Upstream]:
    async with upstream() as running:

        async def answer(request: web.Request, asked: Asked) -> web.Response:
            said = completion(".")
            said["usage"] |= {"prompt_tokens": 40, "prompt_tokens_details": {"cached_tokens": 16}}
            return web.json_response(said)

        running.script = answer
        yield running


@dataclass
class Scene:
    db: Database
    planner: KvPlanner
    ids: list[int]
    registry: CollectorRegistry


@pytest.fixture
async def scene(tmp_path: Path, server: Upstream) -> AsyncIterator[Scene]:
    db = Database.open(tmp_path / "understudy.db")
    bank, log = ExampleBank(db), DecisionLog(db)
    ids = [bank.add(new_example(n, tenant="a1" if n < 3 else "b2")).result(30).id for n in range(4)]
    for number in range(12):
        sent = (ids[number % 3], ids[0]) if number < 9 else (ids[3],)
        tenant = "a1" if number < 9 else "b2"
        record = request_record(number, tenant=tenant, started_at_s=NOW - 60, example_ids=sent)
        log.record(record).result(30)
    for number in range(50):
        record = request_record(
            100 + number,
            started_at_s=NOW - 60,
            example_ids=(),
            prompt_tokens=100 + 10 * number,
            first_chunk_ms=20 + 5 * number,
        )
        log.record(record).result(30)
    engine = OpenAIHTTP(EngineInfo("small", "tiny", Price(1.0, 2.0)), server.url, timeouts=timeouts())
    registry = CollectorRegistry()
    planner = KvPlanner(
        db,
        bank,
        {"small": engine},
        {"small": ROOM},
        lambda example: {"messages": [{"role": "user", "content": example.question}]},
        always,
        600.0,
        KvMetrics(registry),
        clock=lambda: NOW,
    )
    yield Scene(db, planner, ids, registry)
    await engine.aclose()
    db.close()


async def test_the_most_used_stands_first_and_is_warmed_last(scene: Scene, server: Upstream) -> None:
    plan = await scene.planner.step("small", ROOM)

    assert plan.exact
    assert [(k.tenant, k.example_id) for k in plan.kept] == [("a1", scene.ids[0]), ("b2", scene.ids[3])]
    assert [e.example_id for e in KvPlans(scene.db).examples("small")] == [scene.ids[0], scene.ids[3]]
    (row,) = KvPlans(scene.db).plans()
    assert row.figures["ms_per_token"] == pytest.approx(0.5)
    asked = [json.loads(a.body) for a in server.asked]
    assert [a["messages"][0]["content"] for a in asked] == ["question 3", "question 0"]
    assert asked[0]["messages"][1] == {"role": "assistant", "content": "answer 3"}
    assert {(a["max_tokens"], a["model"], a["stream"]) for a in asked} == {(1, "tiny", False)}
    assert (row.warmed, row.warmed_tokens, row.warmed_cached_tokens) == (2, 80, 32)
    assert row.warmed_usd == pytest.approx(2 * (40 * 1.0 + 2.0) / 1e6)
    cost = scene.registry.get_sample_value("understudy_kv_warm_cost_usd_total", {"engine": "small"})
    assert cost == pytest.approx(row.warmed_usd)
    lines = ReplayJobs(scene.db).spend()
    assert [(line.purpose, line.asks) for line in lines] == [("warm", 2)]
    assert lines[0].spent.usd == pytest.approx(row.warmed_usd)


async def test_what_was_warmed_is_not_warmed_again_within_the_hour(scene: Scene, server: Upstream) -> None:
    await scene.planner.step("small", ROOM)
    await scene.planner.step("small", ROOM)
    assert len(server.asked) == 2
    scene.planner.clock = lambda: NOW + 3700
    await scene.planner.step("small", ROOM)
    assert len(server.asked) == 4


async def test_nothing_is_warmed_while_traffic_is_on_and_the_plan_is_there_all_the_same(
    scene: Scene, server: Upstream
) -> None:
    quiet = asyncio.Event()

    async def until_quiet() -> None:
        await quiet.wait()

    scene.planner.may_go_on = until_quiet
    async with asyncio.TaskGroup() as group:
        group.create_task(scene.planner.step("small", ROOM))
        async with asyncio.timeout(60):
            while not KvPlans(scene.db).examples("small"):
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert not server.asked
        quiet.set()
    assert len(server.asked) == 2


async def test_an_engine_that_fails_and_unknown_instructions_leave_the_plan(
    scene: Scene, server: Upstream
) -> None:
    async def broken(request: web.Request, asked: Asked) -> web.Response:
        return web.json_response({"error": {}}, status=500)

    server.script = broken
    assert (await scene.planner.step("small", ROOM)).kept
    assert KvPlans(scene.db).plans()[0].warmed == 0
    scene.planner.clock = lambda: NOW + 7200
    scene.planner.fields_of = lambda example: None
    asked = len(server.asked)
    assert (await scene.planner.step("small", ROOM)).kept
    assert len(server.asked) == asked


def test_room_is_counted_in_blocks_of_the_models_own_size(tmp_path: Path) -> None:
    config = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 128, "torch_dtype": "float32"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = room("x", KvPlanEngineSettings(kv_mib=1, model_dir=str(tmp_path), block_tokens=32), warm=False)
    assert found.blocks == 2**20 // (2 * 2 * 2 * 64 * 4 * 32)
    with pytest.raises(ValueError, match=r"replay\.advanced\.kv_plan\.engines\.x: set bytes_per_token"):
        room("x", KvPlanEngineSettings(kv_mib=1), warm=False)
    with pytest.raises(ValueError, match=r"replay\.advanced\.kv_plan\.engines\.x\.model_dir"):
        room("x", KvPlanEngineSettings(kv_mib=1, model_dir=str(tmp_path / "no")), warm=False)
