"""The replay page: what is wanted is written for the replayer to find, within the budget that the settings allow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from admin.kept_plans import KeptPlan, kept_plans
from admin.replay_benefits import shared_benefits
from store.jobs.replay_records import NewAsk, NewStep, ReplayBudget
from tests.admin.site import ENGINES, Site, site
from tests.flow.line import MODELS
from tests.store.rows import outcome_record


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
    assert run.by_user == "a-operator" and "a-operator" in (await operator.get("/replay/1")).text
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
    jobs.plan(run_id, [NewStep("t1", "distil", n, 0.5, 0.25, 0.02, 100, 1.0) for n in (7, 8)]).result(60)
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
    assert got["results"] == [
        {
            "kind": "distil",
            "result": "replaced",
            "changed": True,
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
    refused = await operator.post(f"/replay/{run_id}/revert", Accept="application/json")
    assert refused.status == 409 and "stop it first" in refused.json["error"]["message"]
    jobs.end(run_id, "done").result(60)
    assert (await operator.post(f"/replay/{run_id}/revert")).status == 303
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


def ran(pages: Site, *results: str) -> int:
    """A run that is over, with a step for each result, of examples from 1 on; changed at about now."""
    jobs = pages.sources.store.jobs.replay
    steps = [NewStep("t1", "distil", n + 1, 0.5, 0.25, 0.02, 100, 1.0) for n in range(len(results))]
    run_id = jobs.want("", ReplayBudget(usd=1.0), asked_by="schedule", steps=steps).result(60)
    for step, result in zip(jobs.steps(run_id), results, strict=True):
        jobs.finish(step.id, "done", result).result(60)
    jobs.end(run_id, "done").result(60)
    return run_id


def judged(pages: Site, number: int, at_s: float, example: int, quality: float) -> None:
    outcome = outcome_record(
        number, tenant="t1", source="judge", example_ids=(example,), at_s=at_s, quality=quality
    )
    pages.sources.store.outcomes.note(outcome)


async def test_steps_that_changed_nothing_have_no_gain(pages: Site) -> None:
    run_id = ran(pages, "kept", "agreed", "replaced")
    viewer = await pages.person("viewer")
    got = (await viewer.get(f"/replay/{run_id}.json")).json
    gains = {one["result"]: one["expected_effect"] for one in got["results"]}
    assert gains == {"agreed": None, "kept": None, "replaced": 0.25}
    assert (await viewer.get(f"/replay/{run_id}")).text.count("none: changed nothing") == 2
    wrote = (await viewer.get(f"/replay/{ran(pages, 'expanded')}.json")).json
    assert wrote["changed"] and "changed nothing" not in (await viewer.get("/replay")).text
    nothing = ran(pages, "kept")
    assert "changed nothing" in (await viewer.get("/replay")).text
    assert not (await viewer.get(f"/replay/{nothing}.json")).json["changed"]


@pytest.mark.parametrize("count", [29, 30])
async def test_the_realised_benefit_stands_beside_the_cost_once_enough_is_judged(
    pages: Site, count: int
) -> None:
    run_id, now_s = ran(pages, "replaced"), time.time()
    numbers = iter(range(10_000))
    for n in range(count):
        # Example 1 was replaced just now; 9 never was.
        judged(pages, next(numbers), now_s - 3600, 1, 0.2 + 0.01 * (n % 3))
        judged(pages, next(numbers), now_s + 60, 1, 0.9 - 0.01 * (n % 3))
        judged(pages, next(numbers), now_s - 3600, 9, 0.5 + 0.01 * (n % 3))
        judged(pages, next(numbers), now_s + 60, 9, 0.6 - 0.01 * (n % 3))
    viewer = await pages.person("viewer")
    await viewer.get(f"/replay/{run_id}.json")
    await asyncio.to_thread(shared_benefits(pages.sources).wait_for, (run_id,), 60)
    benefit = (await viewer.get(f"/replay/{run_id}.json")).json["benefit"]
    page = (await viewer.get(f"/replay/{run_id}")).text
    assert benefit["fewest_judged"] == count and benefit["usd"] is None
    if count < 30:
        assert benefit["quality"] is None and "not known yet" in page and "29 of 30" in page
        return
    quality = benefit["quality"]
    assert quality["value"] == pytest.approx(0.6, abs=0.05) and 0 < quality["low"] < 0.6 < quality["high"]
    assert "+6" in page or "+5" in page
    assert "points (" in page and "Spent" in page
    listed = (await viewer.get("/replay.json")).json
    assert [run["id"] for run in listed["runs"]] == [run_id] and listed["runs"][0]["changed"]


async def test_a_plan_is_run_from_its_page_as_it_was_shown(pages: Site) -> None:
    steps = (NewStep("t1", "distil", 5, 0.5, 0.25, 0.02, 100, 1.0),)
    plans = kept_plans(pages.sources)
    fields = {"plan": plans.put(KeptPlan("", ReplayBudget(usd=0.7), steps))}
    operator = await pages.person("operator")
    assert (await operator.post("/replay/run", fields)).headers["Location"] == "/replay/1"
    jobs = pages.sources.store.jobs.replay
    run = jobs.run(1)
    assert run is not None and run.budget.usd == 0.7
    assert [step.plan for step in jobs.steps(1)] == list(steps)
    again = await operator.post("/replay/run", fields, Accept="application/json")
    assert again.status == 409 and "plan again" in again.json["error"]["message"]
