"""Over a real store and server: what is used most is planned, warmed once while traffic is low, and its cost booked."""

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
from learning.bank.warm.prefixes import KvMetrics, PrefixWarmer, most_used
from learning.replay.asking import always
from router.digest import NO_INSTRUCTIONS, scope_of
from store import Store
from store.jobs.kv_plans import KvPlans
from tests.flow.line import Asked, Upstream, completion, upstream
from tests.knobs import timeouts
from tests.store.behind import database
from tests.store.rows import new_example, request_record

NOW = 1_700_000_000.0
HOUR = 3600.0


def test_uses_decay_by_a_tenth_an_hour_and_the_most_used_comes_first() -> None:
    uses = [
        ("t", NOW, (1, 2)),
        ("t", NOW - HOUR, (2,)),
        ("t", NOW - 2 * HOUR, (3, 1)),
        ("other", NOW, (1,)),
        ("t", NOW, ()),
    ]
    # 3 never stands first: 1 is used more, and would come before it.
    assert most_used(uses, 9, NOW) == [
        (("t", 2), pytest.approx(1.9)),
        (("t", 1), pytest.approx(1.81)),
        (("other", 1), pytest.approx(1.0)),
    ]
    assert [name for name, _ in most_used(uses, 1, NOW)] == [("t", 2)]
    assert most_used([], 9, NOW) == []


@pytest.fixture
async def server() -> AsyncIterator[Upstream]:
    async with upstream() as running:

        async def answer(request: web.Request, asked: Asked) -> web.Response:
            said = completion(".")
            said["usage"] |= {"prompt_tokens": 40, "completion_tokens": 1}
            said["usage"] |= {"prompt_tokens_details": {"cached_tokens": 16}}
            return web.json_response(said)

        running.script = answer
        yield running


@dataclass
class Scene:
    store: Store
    warmer: PrefixWarmer
    ids: list[int]
    registry: CollectorRegistry

    @property
    def plans(self) -> KvPlans:
        return self.store.jobs.kv_plans


@pytest.fixture
async def scene(tmp_path: Path, server: Upstream) -> AsyncIterator[Scene]:
    store = Store.open(tmp_path)
    plain = scope_of(NO_INSTRUCTIONS)
    ids = [
        store.examples.add(new_example(n, tenant="a1" if n < 3 else "b2", scope=plain)).result(30).id
        for n in range(4)
    ]
    for number in range(12):
        sent = (ids[number % 3], ids[0]) if number < 9 else (ids[3],)
        tenant = "a1" if number < 9 else "b2"
        record = request_record(number, tenant=tenant, started_at_s=NOW - 60, example_ids=sent)
        store.decisions.requests.record(record).result(30)
    engine = OpenAIHTTP(EngineInfo("small", "tiny", Price(1.0, 2.0)), server.url, timeouts=timeouts())
    registry = CollectorRegistry()
    warmer = PrefixWarmer(store, {"small": engine}, always, KvMetrics(registry), clock=lambda: NOW)
    yield Scene(store, warmer, ids, registry)
    await engine.aclose()
    store.close()


async def test_the_most_used_stands_first_and_is_warmed_last(scene: Scene, server: Upstream) -> None:
    plan = await scene.warmer.step("small")

    assert [(e.tenant, e.example_id) for e in plan] == [("a1", scene.ids[0]), ("b2", scene.ids[3])]
    assert [e.example_id for e in scene.plans.examples("small")] == [scene.ids[0], scene.ids[3]]
    (row,) = scene.plans.plans()
    assert row.figures == {"of": 4}
    asked = [json.loads(a.body) for a in server.asked]
    assert [a["messages"][0]["content"] for a in asked] == ["question 3", "question 0"]
    assert asked[0]["messages"][1] == {"role": "assistant", "content": "answer 3"}
    assert {(a["max_tokens"], a["model"], a["stream"]) for a in asked} == {(1, "tiny", False)}
    assert (row.warmed, row.warmed_tokens, row.warmed_cached_tokens) == (2, 80, 32)
    assert row.warmed_usd == pytest.approx(2 * (40 * 1.0 + 2.0) / 1e6)
    cost = scene.registry.get_sample_value("understudy_kv_warm_cost_usd_total", {"engine": "small"})
    assert cost == pytest.approx(row.warmed_usd)
    lines = scene.store.jobs.replay.spend()
    assert [(line.purpose, line.asks) for line in lines] == [("warm", 2)]
    assert lines[0].spent.usd == pytest.approx(row.warmed_usd)


async def test_what_was_warmed_is_not_warmed_again_within_the_hour(scene: Scene, server: Upstream) -> None:
    await scene.warmer.step("small")
    await scene.warmer.step("small")
    assert len(server.asked) == 2
    scene.warmer.clock = lambda: NOW + 3700
    await scene.warmer.step("small")
    assert len(server.asked) == 4


async def test_only_so_many_are_kept_and_none_is_warmed_where_that_is_off(
    scene: Scene, server: Upstream
) -> None:
    scene.warmer.most, scene.warmer.warm = 1, False
    assert [e.example_id for e in await scene.warmer.step("small")] == [scene.ids[0]]
    assert not server.asked


async def test_nothing_is_warmed_while_traffic_is_on_and_the_plan_is_there_all_the_same(
    scene: Scene, server: Upstream
) -> None:
    quiet = asyncio.Event()

    async def until_quiet() -> None:
        await quiet.wait()

    scene.warmer.may_go_on = until_quiet
    async with asyncio.TaskGroup() as group:
        group.create_task(scene.warmer.step("small"))
        async with asyncio.timeout(60):
            while not scene.plans.examples("small"):
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert not server.asked
        quiet.set()
    assert len(server.asked) == 2


async def test_an_engine_that_fails_leaves_the_plan(scene: Scene, server: Upstream) -> None:
    async def broken(request: web.Request, asked: Asked) -> web.Response:
        return web.json_response({"error": {}}, status=500)

    server.script = broken
    assert await scene.warmer.step("small")
    assert scene.plans.plans()[0].warmed == 0


async def test_what_was_asked_under_unknown_instructions_is_planned_and_not_warmed(
    scene: Scene, server: Upstream
) -> None:
    database(scene.store).write(lambda c: c.execute("UPDATE examples SET scope = 'of unknown words'")).result(
        30
    )
    assert len(await scene.warmer.step("small")) == 2
    assert not server.asked
