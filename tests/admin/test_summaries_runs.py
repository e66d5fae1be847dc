"""The runs pages: what an executor left in the store, and a cancel that reaches it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from admin.pages.runs import RUN, RUNS
from admin.roles import Role
from admin.summaries.run import STEPS_SHOWN, run
from admin.summaries.runs import ROWS, runs
from store.workflows.records import NewRun, NewStep, Resolution, RunChange, RunEnd
from tests.admin.runs_kept import CLAIM, failed, going_on, map_reduce, of_workflow
from tests.admin.site import Site, site

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


@pytest.fixture
def at_s() -> float:
    return time.time() - 60


def test_who_may_only_look_may_look_and_nothing_else() -> None:
    for page in (RUNS, RUN):
        assert page.role is Role.VIEWER and page.summary in (runs, run)
        assert all(action.role is Role.OPERATOR for action in page.actions)


async def test_runs_are_listed_and_filtered(pages: Site, at_s: float) -> None:
    store = pages.sources.store
    viewer = await pages.person("viewer")
    assert "No run yet" in (await viewer.get("/runs")).text
    map_reduce(store, "run_1", at_s)
    failed(store, "run_2", at_s + 1, tenant="t2")
    going_on(store, "run_3", at_s + 2)
    told = (await viewer.get("/runs.json")).json
    assert [row["id"] for row in told["rows"]] == ["run_3", "run_2", "run_1"]
    assert told["day"] == {"running": 1, "done": 1, "failed": 1, "cancelled": 0}
    last = told["rows"][2]
    assert (last["app"], last["steps"], last["done"], last["share_done"]) == ("papers", 4, 4, 1.0)
    assert (last["prompt_tokens"], last["cached_tokens"], last["completion_tokens"]) == (4000, 1600, 200)
    assert (last["cost_usd"], last["round_trips_saved"]) == (1.0, 1)
    assert last["took_ms"] == pytest.approx(6000, abs=1)
    assert told["rows"][1]["failure"] == "step_failed"
    for query, ids in (
        ("state=failed", ["run_2"]),
        ("tenant=t1", ["run_3", "run_1"]),
        ("app=papers", ["run_1"]),
        ("state=cancelled", []),
    ):
        assert [row["id"] for row in (await viewer.get(f"/runs.json?{query}")).json["rows"]] == ids
    assert "None found" in (await viewer.get("/runs?state=cancelled")).text
    assert (await viewer.get("/runs?state=lost")).status == 400
    assert (await viewer.get("/runs?before=x")).status == 400


async def test_lists_go_on(pages: Site, at_s: float) -> None:
    store = pages.sources.store
    for n in range(ROWS + 1):
        store.runs.begin(CLAIM, NewRun(f"run_{n:03}", "t1", at_s), [NewStep("s")], []).result(30)
    viewer = await pages.person("viewer")
    first = (await viewer.get("/runs.json?tenant=t1")).json
    assert len(first["rows"]) == ROWS and "tenant=t1" in first["next"]
    then = (await viewer.get(f"/runs.json?{first['next']}")).json
    assert [row["id"] for row in then["rows"]] == ["run_000"] and then["next"] is None


async def test_one_run_shows_its_graph_its_waterfall_and_its_critical_path(pages: Site, at_s: float) -> None:
    map_reduce(pages.sources.store, "run_1", at_s, said=f"secret {HOSTILE}")
    viewer = await pages.person("viewer")
    got = await viewer.get("/runs/run_1.json")
    told = got.json
    assert "secret" not in got.text + (await viewer.get("/runs/run_1")).text
    as_csv = await viewer.get("/runs/run_1.csv")
    assert as_csv.status == 200 and "secret" not in as_csv.text and as_csv.text.count("\n") > 2
    by_id = {node["id"]: node for node in told["graph"]["nodes"]}
    assert {node["x"] for id, node in by_id.items() if id != "last"} == {8}
    assert by_id["last"]["x"] > 8 + told["graph"]["node_width"]
    assert {(edge["from"], edge["to"]) for edge in told["graph"]["edges"]} == {
        (f"s{n}", "last") for n in range(3)
    }
    assert [edge["from"] for edge in told["graph"]["edges"] if edge["critical"]] == ["s2"]
    assert [each["name"] for each in told["critical_path"]] == ["part-2", "summary"]
    assert told["critical_ms"] == pytest.approx(5000, abs=1)
    row = told["rows"][3]
    assert (row["name"], row["rank"], row["depth"], row["critical"]) == ("summary", "latency", 1, True)
    assert row["phases_ms"] == pytest.approx({"waiting": 4000, "queued": 500, "prefill": 250, "decode": 1250})
    assert [(bar["phase"], bar["x"]) for bar in row["bars"]] == [
        ("waiting", 0),
        ("queued", 667),
        ("prefill", 750),
        ("decode", 792),
    ]
    assert told["rows"][0]["feeds"] == ["summary"]
    assert [(v["name"], v["state"], v["got"]) for v in told["variables"]][-1] == (
        "summary",
        "ready",
        "latency",
    )
    assert told["budget"] == {"usd": 2.0, "tokens": None, "seconds": None}
    assert told["budget_says"] == ["$2.00"]
    assert (await viewer.get("/runs/run_9")).status == 404


async def test_what_failed_is_told_and_its_words_only_to_who_may_read_them(pages: Site, at_s: float) -> None:
    failed(pages.sources.store, "run_1", at_s, said=f"secret {HOSTILE}")
    for role, reads in (("viewer", False), ("viewer-content", True)):
        person = await pages.person(role)
        told = (await person.get("/runs/run_1.json")).json
        assert (told["why"]["code"], told["why"]["chain"]) == ("step_failed", ["code", "plan"])
        assert told["why"]["message"] == (f"secret {HOSTILE}" if reads else None)
        page = (await person.get("/runs/run_1")).text
        assert ("secret" in page) is reads and HOSTILE not in page
        assert told["rows"][1]["phases_ms"]["waiting"] == pytest.approx(1000, abs=1)
        assert told["rows"][0]["attempts"] == 2


async def test_a_run_of_a_workflow_shows_pieces_batches_early_tokens_and_a_chain_s_time(
    pages: Site, at_s: float
) -> None:
    store = pages.sources.store
    of_workflow(store, "run_1", at_s)
    of_workflow(store, "run_2", at_s, tenant="t2")
    viewer = await pages.person("viewer")
    listed = (await viewer.get("/runs.json?workflow=doc-qa")).json["rows"]
    assert [(row["id"], row["workflow"]) for row in listed] == [("run_2", "doc-qa"), ("run_1", "doc-qa")]
    assert (await viewer.get("/runs.json?workflow=other")).json["rows"] == []
    told = (await viewer.get("/runs/run_1.json")).json
    rows = {row["id"]: row for row in told["rows"]}
    assert [(row["primitive"], row["component"]) for row in told["rows"]] == [
        ("embed", "local"),
        ("embed", "local"),
        ("gather", ""),
        ("tool", "travel"),
        ("chat", ""),
    ]
    assert rows["index.embed[0]"]["batch"] == {
        "id": "run_1-b1",
        "items": 2,
        "steps": ["index.embed[0]"],
        "others": [],
    }
    assert rows["index.embed[1]"]["batch"] == {
        "id": "b2",
        "items": 2,
        "steps": ["index.embed[1]"],
        "others": ["run_2"],
    }
    # Both pieces of the index at once for 2 s, the tool for 1 s, the answer for 2 s.
    assert told["chain_ms"] == pytest.approx(5000, abs=1)
    assert {(edge["from"], edge["to"]) for edge in told["graph"]["edges"]} == {
        ("index.embed[0]", "index"),
        ("index.embed[1]", "index"),
        ("index", "book"),
        ("index", "answer"),
        ("book", "answer"),
    }
    page = (await viewer.get("/runs/run_1")).text
    for text in (
        "Module by module",
        "index.embed[1]",
        "batch of 2",
        "/runs/run_2",
        "doc-qa",
    ):
        assert text in page, text
    assert told["unknown"] == [] and "may or may not have taken effect" not in page


async def test_a_person_decides_about_a_step_that_was_cut_off(pages: Site, at_s: float) -> None:
    store = pages.sources.store
    of_workflow(store, "run_1", at_s, ends=False)
    operator, viewer = await pages.person("operator"), await pages.person("viewer")
    told = (await viewer.get("/runs/run_1.json")).json
    assert [(step["id"], step["component"], step["decided"]) for step in told["unknown"]] == [
        ("book", "travel", "")
    ]
    assert "1 to decide" in (await viewer.get("/runs")).text
    assert "Take this value" not in (await viewer.get("/runs/run_1")).text
    assert "Take this value" in (await operator.get("/runs/run_1")).text
    resolve = "/runs/run_1/resolve"
    assert (await viewer.post(resolve, {"step": "book", "how": "skip"})).status == 403
    assert (await operator.post(resolve, {"step": "book", "how": "forget"})).status == 400
    assert (await operator.post(resolve, {"step": "book", "how": "value", "value": "x" * 2001})).status == 400
    late = await operator.post(resolve, {"step": "answer", "how": "skip"})
    assert "does not wait for a decision" in late.text
    assert (await operator.post("/runs/run_9/resolve", {"step": "book", "how": "skip"})).status == 404
    got = await operator.post(resolve, {"step": "book", "how": "value", "value": " booked\r\ntwice"})
    assert got.status == 303
    whole = store.runs.run("run_1")
    assert whole is not None
    assert [step.resolution for step in whole.steps if step.resolution] == [
        Resolution("value", " booked\ntwice")
    ]
    page = (await operator.get("/runs/run_1")).text
    assert "Decided: value" in page and "Take this value" not in page
    noted = store.audit.page(limit=1)[0]
    assert noted.action == "runs/resolve" and "booked" not in str(noted)


async def test_a_run_that_goes_on_is_shown_as_far_as_it_is_and_cancelled(pages: Site, at_s: float) -> None:
    store = pages.sources.store
    going_on(store, "run_1", at_s)
    operator = await pages.person("operator")
    told: Any = (await operator.get("/runs/run_1.json")).json
    assert told["goes_on"] and told["round_trips_saved"] is None
    assert [row["state"] for row in told["rows"]] == ["done", "running", "waiting", "waiting"]
    assert told["rows"][1]["phases_ms"]["prefill"] > 50_000, "until now"
    assert told["rows"][2]["phases_ms"]["waiting"] > 50_000
    assert [each["id"] for each in told["critical_path"]] == ["s0", "s1"], "so far"
    viewer = await pages.person("viewer")
    assert (await viewer.post("/runs/run_1/cancel")).status == 403
    assert "Cancel" in (await operator.get("/runs/run_1")).text
    got = await operator.post("/runs/run_1/cancel")
    assert got.status == 303
    whole = store.runs.run("run_1")
    assert whole is not None and whole.run.cancel_asked
    assert "cancelling" in (await operator.get("/runs/run_1")).text
    assert store.audit.page(limit=1)[0].action == "runs/cancel"
    store.runs.save(CLAIM, [RunChange("run_1", at_s, end=RunEnd("cancelled", at_s))]).result(30)
    again = await operator.post("/runs/run_1/cancel")
    assert again.status != 404 and "ended already" in (await operator.get("/runs/run_1")).text + again.text
    assert (await operator.post("/runs/run_9/cancel")).status == 404


async def test_a_long_run_is_shown_in_parts(pages: Site, at_s: float) -> None:
    going_on(pages.sources.store, "run_1", at_s, steps=STEPS_SHOWN + 1)
    viewer = await pages.person("viewer")
    told = (await viewer.get("/runs/run_1.json")).json
    assert told["graph"] is None and len(told["rows"]) == STEPS_SHOWN and told["next"] == STEPS_SHOWN
    rest = (await viewer.get(f"/runs/run_1.json?from={told['next']}")).json
    assert [row["name"] for row in rest["rows"]] == [f"turn-{STEPS_SHOWN}"] and rest["next"] is None
    assert "More steps than a drawing shows" in (await viewer.get("/runs/run_1")).text


async def test_a_run_without_steps_has_a_page(pages: Site, at_s: float) -> None:
    pages.sources.store.runs.begin(CLAIM, NewRun("run_1", "t1", at_s), [], []).result(30)
    viewer = await pages.person("viewer")
    assert "No step yet" in (await viewer.get("/runs/run_1")).text
