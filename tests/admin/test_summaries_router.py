"""The router's page from real decisions; what other dials would have brought; and turning them, there and back."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from admin.page import Page
from admin.pages.router import ROUTER, WHAT_IF
from admin.roles import Role
from admin.summaries.router import LATEST_REASONS, router
from admin.summaries.what_if import shared, what_if
from admin.what_if import Question, WhatIf, by_count, compute
from store.memory import Memory
from store.request_rollups import RequestRollups
from tests.admin.traffic import ALIKE, QUESTION, UNLIKE, house
from tests.store.rows import choice_record, outcome_record


def learnt_from(store: Memory, count: int = 240) -> None:
    """Decisions drawn at random, of which with examples is nearly as good as the large engine and far cheaper."""
    draw = random.Random(7)
    for number in range(count):
        chosen = draw.randrange(3)
        quality = (0.3, 0.85, 0.95)[chosen] if draw.random() < 0.9 else 0.5
        engine, ids = (("small", ()), ("small", (1, 2)[: 1 + number % 2]), ("large", ()))[chosen]
        store.choices.record(
            choice_record(
                number,
                chosen=chosen,
                engine=engine,
                example_ids=ids,
                cost_usd=(0.001, 0.002, 0.02)[chosen],
                examples_probability=0.5,
            )
        ).result(30)
        store.outcomes.note(
            outcome_record(number, engine=engine, example_ids=ids, quality=quality, probability=1.0)
        ).result(30)


@pytest.mark.parametrize("page", [ROUTER, WHAT_IF])
def test_who_may_look_may_not_turn(page: Page) -> None:
    assert page.role is Role.VIEWER and page.summary in (router, what_if)
    assert all(action.role is Role.OPERATOR for action in page.actions)


async def test_shares_reasons_and_dials_are_those_of_the_traffic(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        for question in (QUESTION, ALIKE, UNLIKE, QUESTION):
            await here.ask(question)
        await asyncio.to_thread(RequestRollups(here.site.sources.store.db, ["gpt-4o"]).catch_up)
        viewer = await here.site.person("viewer")
        told = (await viewer.get("/router.json?model=gpt-4o")).json
        assert told["shares"]["totals"] == {"large": 2, "small + examples": 1, "memory": 1}
        assert {row["reason"]: row["requests"] for row in told["reasons"]["by_reason"]} == {
            "novel": 2,
            "familiar": 1,
        }
        assert {row["name"]: row["in_force"] for row in told["dials"]["rows"]} == {
            "preference": 0.5,
            "theta": 0.8,
            "m": 1,
            "max_examples": 8,
        }
        assert (await viewer.get("/router")).status == 200
        assert (await viewer.get("/router?model=unknown")).status == 400
        empty = await viewer.get("/router/what-if")
        assert empty.status == 200 and "Too little is known" in empty.text


async def test_a_turned_dial_decides_the_next_requests_until_it_is_taken_back(tmp_path: Path) -> None:
    async with house(tmp_path, memory={"exact": {"enabled": False}}) as here:
        await here.ask(QUESTION)
        operator = await here.site.person("operator")

        async def goes_to(engine: str) -> None:
            async with asyncio.timeout(20):
                while True:
                    got = await here.gate.chat(ALIKE, {"Cache-Control": "no-store"})
                    if got.headers["x-understudy-engine"] == engine:
                        return
                    await asyncio.sleep(0.05)

        await goes_to("small")
        fields = {"model": "gpt-4o", "preference": "0.5", "theta": "0.8", "m": "7", "max_examples": "8"}
        got = await operator.post("/router/dials", fields)
        assert got.status == 303
        await goes_to("large")
        told = (await operator.get("/router.json")).json["dials"]
        assert told["by"] == "a-operator" and told["history"][0]["values"] == {"m": 7}
        assert (await operator.post("/router/dials/back", {"model": "gpt-4o"})).status == 303
        await goes_to("small")
        assert (await operator.post("/router/dials/back", {"model": "gpt-4o"})).status == 409
        assert (await operator.post("/router/dials", {**fields, "m": "1"})).status == 409, "as configured"
        assert (await operator.post("/router/dials", {**fields, "preference": "2"})).status == 400
        actions = [row["action"] for row in (await operator.get("/audit.json")).json["rows"]]
        assert actions.count("/router/dials/back") == 2
        viewer = await here.site.person("viewer-content")
        assert (await viewer.post("/router/dials", fields)).status == 403


async def test_what_if_shows_the_frontier_with_intervals_and_offers_to_apply(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await asyncio.to_thread(learnt_from, here.site.sources.store)
        operator = await here.site.person("operator")
        told = (await operator.get("/router/what-if.json?preference=0.3&m=2")).json
        points = {(p["policy"], p["dial"]): p for p in told["result"]["points"]}
        large, small = points["always:large", None], points["always:small", None]
        assert large["cost_usd"]["value"] > 5 * small["cost_usd"]["value"]
        assert large["quality"]["low"] > small["quality"]["high"]
        assert points["expected", 0.3]["asked"] and points["few_shot:0.8,2", None]["asked"]
        assert told["changed"] == {"preference": 0.3, "m": 2} and told["chart"]["traces"]
        assert [row["examples"] for row in told["result"]["by_count"]] == [1, 2]
        assert len(told["result"]["over_time"]) == 12
        page = await operator.get("/router/what-if?preference=0.3&m=2")
        assert page.status == 200 and "Apply these dials" in page.text
        viewer = await here.site.person("viewer")
        assert "Apply these dials" not in (await viewer.get("/router/what-if?preference=0.3")).text
        for query in ("preference=3", "m=0", "theta=x", "model=unknown"):
            assert (await viewer.get(f"/router/what-if?{query}")).status == 400
        shared(here.site.sources).close()


def test_what_was_computed_is_not_computed_again_and_nobody_waits_for_ever(tmp_path: Path) -> None:
    store = Memory.open(tmp_path)
    learnt_from(store, 60)
    asked = WhatIf(store)
    question = Question("a1", "gpt-4o", 0.5, 0.8, 3)
    first = asked.answer(question, 60.0)
    assert first is not None and asked.answer(question, 0.0) is first
    assert asked.answer(Question("a1", "gpt-4o", 0.25, 0.8, 3), 0.0) is None
    asked.close()
    assert compute(store, question)["points"] == first["points"], "the same log gives the same figures"
    assert by_count([]) == []
    store.close()


def test_the_latest_reasons_are_read_from_an_index_and_not_from_the_whole_log(tmp_path: Path) -> None:
    store = Memory.open(tmp_path)
    values = {"model": "m", "since": 0.0, "looked": 10, "limit": 5}
    plan = [row[3] for row in store.db.read().execute("EXPLAIN QUERY PLAN " + LATEST_REASONS, values)]
    assert any("USING INDEX requests_by_time" in step for step in plan), plan
    assert not any("TEMP B-TREE" in step for step in plan), plan
    store.close()
