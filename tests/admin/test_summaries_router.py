"""The router's page from real decisions; what other dials would have brought; and turning them, there and back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from admin.page import Page
from admin.pages.router import ROUTER, WHAT_IF
from admin.roles import Role
from admin.summaries.router import router
from admin.summaries.what_if import what_if
from store import Store
from store.decisions.requests import LATEST_REASONS
from tests.admin.traffic import ALIKE, QUESTION, UNLIKE, house
from tests.store.behind import database


@pytest.mark.parametrize("page", [ROUTER, WHAT_IF])
def test_who_may_look_may_not_turn(page: Page) -> None:
    assert page.role is Role.VIEWER and page.summary in (router, what_if)
    assert all(action.role is Role.OPERATOR for action in page.actions)


async def test_shares_reasons_and_dials_are_those_of_the_traffic(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        for question in (QUESTION, ALIKE, UNLIKE, QUESTION):
            await here.ask(question)
        await asyncio.to_thread(here.site.sources.rollups.catch_up)
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


def test_the_latest_reasons_are_read_from_an_index_and_not_from_the_whole_log(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    values = {"model": "m", "since": 0.0, "looked": 10, "limit": 5}
    plan = [row[3] for row in database(store).read().execute("EXPLAIN QUERY PLAN " + LATEST_REASONS, values)]
    assert any("USING INDEX requests_by_time" in step for step in plan), plan
    assert not any("TEMP B-TREE" in step for step in plan), plan
    store.close()
