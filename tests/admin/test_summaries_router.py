"""The router's page from real decisions; and changing its settings, for everybody or one tenant, there and back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from admin.page import Page
from admin.pages.router import CHANGE, ROUTER, SIMULATE
from admin.roles import Role
from admin.summaries.router import router
from admin.summaries.routing_change import routing_change
from admin.summaries.what_if import what_if
from store import Store
from store.decisions.requests import LATEST_REASONS
from tests.admin.site import site
from tests.admin.traffic import ALIKE, QUESTION, UNLIKE, house
from tests.store.behind import database


@pytest.mark.parametrize("page", [ROUTER, SIMULATE, CHANGE])
def test_who_may_look_may_not_change(page: Page) -> None:
    assert page.role is Role.VIEWER and page.summary in (router, what_if, routing_change)
    assert all(action.role is Role.OPERATOR for action in page.actions)


async def test_shares_reasons_and_settings_are_those_of_the_traffic(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        for question in (QUESTION, ALIKE, UNLIKE, QUESTION):
            await here.ask(question)
        await asyncio.to_thread(here.site.sources.rollups.catch_up)
        viewer = await here.site.person("viewer")
        told = (await viewer.get("/router.json?model=gpt-4o")).json
        assert told["shares"]["totals"] == {"large": 2, "small, few-shot": 1, "cache hit": 1}
        assert {row["reason"]: row["requests"] for row in told["reasons"]["by_reason"]} == {
            "novel": 2,
            "familiar": 1,
        }
        assert {row["name"]: row["in_force"] for row in told["settings"]["rows"]} == {
            "preference": 0.5,
            "theta": 0.8,
            "m": 1,
            "max_examples": 8,
        }
        assert told["span"] == "15min", "there is no more"
        assert (await viewer.get("/router.json?model=gpt-4o&span=week")).json["shares"]["totals"] == told[
            "shares"
        ]["totals"]
        assert (await viewer.get("/router")).status == 200
        assert (await viewer.get("/router?model=unknown")).status == 400


async def test_a_changed_setting_decides_the_next_requests_until_it_is_undone(tmp_path: Path) -> None:
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
        got = await operator.post("/router/settings", fields)
        assert got.status == 303
        await goes_to("large")
        told = (await operator.get("/router.json")).json["settings"]
        assert told["by"] == "a-operator" and told["history"][0]["values"] == {"m": 7}
        assert (await operator.post("/router/settings/undo", {"model": "gpt-4o"})).status == 303
        await goes_to("small")
        assert (await operator.post("/router/settings/undo", {"model": "gpt-4o"})).status == 409
        assert (await operator.post("/router/settings", {**fields, "m": "1"})).status == 409, "as configured"
        assert (await operator.post("/router/settings", {**fields, "preference": "2"})).status == 400
        actions = [row["action"] for row in (await operator.get("/audit.json")).json["rows"]]
        assert actions.count("/router/settings/undo") == 2
        viewer = await here.site.person("viewer-content")
        assert (await viewer.post("/router/settings", fields)).status == 403


async def test_a_change_is_confirmed_for_one_tenant_and_told_to_who_comes_second(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        operator = await here.person("operator")
        asked = "/router/settings?model=demo&tenant=acme&theta=0.9&m=3"
        looked = (await operator.get(asked.replace("?", ".json?"))).json
        assert [(row["name"], row["now"], row["then"]) for row in looked["changes"]] == [("theta", 0.8, 0.9)]
        page = await operator.get(asked)
        assert page.status == 200 and "Nothing is changed yet" in page.text and "Only acme" in page.text
        fields = {
            "model": "demo",
            "tenant": "acme",
            "for": "tenant",
            "theta": "0.9",
            "version": looked["version"],
        }
        assert (await operator.post("/router/settings", fields)).status == 303
        dials = here.sources.store.dials
        assert dials.in_force("demo") is None and dials.of_tenants("demo")["acme"].theta == 0.9
        second = await operator.post("/router/settings", {**fields, "theta": "0.7"})
        assert second.status == 409 and "changed by a-operator meanwhile (theta 0.9)" in second.text
        told = (await operator.get("/router.json?model=demo")).json["settings"]
        assert [(row["name"], row["values"]) for row in told["own"]] == [("acme", {"theta": 0.9})]
        again = (await operator.get("/router/settings.json?model=demo&tenant=acme&theta=0.95")).json
        assert again["changes"][0]["now"] == 0.9, "a tenant's own are those in force for it"
        rows = (await operator.get("/audit.json")).json["rows"]
        detail = next(row for row in rows if row["outcome"] == "done")["detail"]
        assert (detail["tenant"], detail["from"]["theta"], detail["to"]["theta"]) == ("acme", 0.8, 0.9)
        undone = await operator.post("/router/settings/undo", {"model": "demo", "tenant": "acme"})
        assert undone.status == 303 and not dials.of_tenants("demo")
        for wrong in ({"for": "tenant", "tenant": ""}, {"version": "x"}, {"m": "0"}, {"model": "none"}):
            assert (await operator.post("/router/settings", {**fields, **wrong})).status == 400


def test_the_latest_reasons_are_read_from_an_index_and_not_from_the_whole_log(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    values = {"model": "m", "since": 0.0, "looked": 10, "limit": 5}
    plan = [row[3] for row in database(store).read().execute("EXPLAIN QUERY PLAN " + LATEST_REASONS, values)]
    assert any("USING INDEX requests_by_time" in step for step in plan), plan
    assert not any("TEMP B-TREE" in step for step in plan), plan
    store.close()
