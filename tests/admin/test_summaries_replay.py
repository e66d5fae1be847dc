"""The replay page: what is wanted is written for the replayer to find, within the budget that the settings allow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from admin.summaries.replay import replay
from store.jobs.replay_records import NewAsk, NewStep, ReplayBudget
from tests.admin.site import ENGINES, Site, site
from tests.flow.line import MODELS

assert replay, "asked for over HTTP below"


def config(**replay: Any) -> dict[str, Any]:
    engines = {**ENGINES["engines"], "judge": {"kind": "simulated", "role": "judge"}}
    return {"engines": engines, "replay": {"judge": "judge", "max_run_usd": 2, **replay}}


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path, **config(enabled=True)) as made:
        yield made


async def test_run_now_is_a_row_that_the_replayer_picks_up(pages: Site) -> None:
    operator = await pages.person("operator")
    done = await operator.post("/replay/run", {"usd": "0.5"})
    assert done.status == 303 and done.headers["Location"] == "/replay/1"
    run = pages.sources.store.jobs.replay.run(1)
    assert run is not None and (run.state, run.asked_by, run.budget.usd) == ("wanted", "admin", 0.5)
    assert run.budget.tokens == 1_000_000
    assert (await operator.post("/replay/1/stop")).status == 303
    run = pages.sources.store.jobs.replay.run(1)
    assert run is not None and run.state == "stopped"
    again = await operator.post("/replay/1/stop", Accept="application/json")
    assert again.status == 409


@pytest.mark.parametrize("fields", [{"usd": "3"}, {"usd": "-1"}, {"usd": "nan"}, {"tenant": "nobody"}])
async def test_nothing_beyond_the_configured_budget_is_wanted(pages: Site, fields: dict[str, str]) -> None:
    operator = await pages.person("operator")
    assert (await operator.post("/replay/run", fields)).status == 400
    assert pages.sources.store.jobs.replay.runs() == []


async def test_a_run_shows_how_far_it_is_and_what_each_step_bought(pages: Site) -> None:
    jobs = pages.sources.store.jobs.replay
    run_id = jobs.want("", ReplayBudget(usd=1.0), asked_by="schedule").result(60)
    jobs.begin(run_id).result(60)
    jobs.plan(run_id, [NewStep("t1", "distil", n, 0.5, 0.1, 0.25, 0.02, 100, 1.0) for n in (7, 8)]).result(60)
    first, _ = jobs.steps(run_id)
    ask = jobs.asks.note(NewAsk(run_id, first.id, "t1", "answer:0", "large", "answer", 0.05, 500)).result(60)
    jobs.asks.answered(
        ask, "paid", cost_usd=0.01, prompt_tokens=50, completion_tokens=20, latency_s=0.5
    ).result(60)
    jobs.finish(first.id, "done", "replaced", {"score": 1.5, "note": "<b>x</b>"}).result(60)
    viewer = await pages.person("viewer")
    got = (await viewer.get(f"/replay/{run_id}.json")).json
    assert (got["run"]["state"], got["run"]["done"], got["run"]["steps"]) == ("running", 1, 2)
    assert got["run"]["spent_usd"] == pytest.approx(0.01)
    assert got["bought"] == [
        {
            "kind": "distil",
            "result": "replaced",
            "steps": 1,
            "usd": pytest.approx(0.01),
            "expected_effect": 0.25,
        }
    ]
    assert got["steps"][0]["detail"] == {"score": 1.5, "note": "<b>x</b>"} and got["steps"][1]["usd"] == 0
    page = (await viewer.get(f"/replay/{run_id}")).text
    assert "<b>x" not in page and "Stop" not in page
    listed = (await viewer.get("/replay.json")).json
    assert listed["runs"][0]["share_done"] == 0.5 and listed["week_usd"] == pytest.approx(0.01)


async def test_a_run_is_taken_back_only_when_it_is_over(pages: Site) -> None:
    jobs = pages.sources.store.jobs.replay
    run_id = jobs.want("", ReplayBudget(usd=1.0), asked_by="admin").result(60)
    operator = await pages.person("operator")
    refused = await operator.post(f"/replay/{run_id}/take-back", Accept="application/json")
    assert refused.status == 409 and "stop it first" in refused.json["error"]["message"]
    jobs.end(run_id, "done").result(60)
    assert (await operator.post(f"/replay/{run_id}/take-back")).status == 303
    run = jobs.run(run_id)
    assert run is not None and run.state == "undone"
    assert pages.sources.store.audit.page(limit=1)[0].detail == {"restored": 0, "removed": 0, "left": 0}


@pytest.mark.parametrize("id", ["0", "999", "x", "9" * 30, "%F0%9D%9F%99"])
async def test_a_run_that_is_not_there_is_said_not_to_be(pages: Site, id: str) -> None:
    viewer = await pages.person("viewer")
    assert (await viewer.get(f"/replay/{id}.json")).status == 404


async def test_without_a_replayer_nothing_is_wanted_in_vain(tmp_path: Path) -> None:
    async with site(tmp_path, **config(enabled=False)) as made:
        operator = await made.person("operator")
        got = await operator.post("/replay/run", {}, Accept="application/json")
        assert got.status == 409 and "replay.enabled" in got.json["error"]["message"]
        assert "replay.enabled" in (await operator.get("/replay")).text


async def test_a_plan_is_made_by_replays_own_planner_and_asks_nobody(tmp_path: Path) -> None:
    advanced = {"embedding_deadline_ms": 10_000, "embedding_cache_dir": str(MODELS)}
    memory = {"data_dir": str(tmp_path), "advanced": advanced}
    async with site(tmp_path, **config(enabled=True), memory=memory) as made:
        operator = await made.person("operator")
        got = await operator.post("/replay/plan", {"usd": "1"}, Accept="application/json")
        assert got.status == 200 and got.json["steps"] == [] and got.json["expected"]["usd"] == 0
        assert "Nothing is worth doing" in (await operator.post("/replay/plan", {"usd": "1"})).text
        assert made.sources.store.jobs.replay.runs() == []
