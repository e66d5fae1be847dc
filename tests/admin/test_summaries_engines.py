"""The engines page: what workers say, what the log says, and draining."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from admin.summaries.engine_load import engine_load
from admin.summaries.engines import engines
from store.jobs.engine_states import EngineStateRow
from tests.admin.site import Site, site
from tests.store.rows import request_record

assert engines and engine_load, "asked for over HTTP below"


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


def say(
    pages: Site, worker: str, in_flight: int, state: str = "up", error: str = "", replica: str = ""
) -> None:
    row = EngineStateRow(
        *(worker, "large", time.time(), in_flight, 1, 8, in_flight / 8, "closed", False, 10, 2),
        *(0.5, 2.0, None, None, replica, state, time.time(), error, time.time() if error else None),
    )
    pages.sources.store.jobs.engine_states.say([row]).result(60)


async def test_workers_are_added_up_and_the_log_says_how_fast_it_was(pages: Site) -> None:
    say(pages, "w1", 2)
    say(pages, "w2", 8)
    for i in range(20):
        record = request_record(
            *(i,),
            engine="large",
            model="demo",
            started_at_s=time.time() - 30,
            first_chunk_ms=100.0,
            total_ms=100.0 + 49 * 4,
            outcome="failed" if i < 2 else "answered",
        )
        pages.sources.store.decisions.requests.record(record).result(60)
    viewer = await pages.person("viewer")
    got = (await viewer.get("/engines.json")).json["engines"]
    small, large = got
    assert (small["name"], small["state"], small["workers"]) == ("small", "unknown", 0)
    assert (large["in_flight"], large["queued"], large["workers"], large["state"]) == (10, 2, 2, "up")
    assert (large["asked"], large["failed"], large["utilisation"]) == (20, 4, 1.0)
    assert (large["requests"], large["failed_requests"]) == (20, 2)
    assert large["first_chunk_ms"]["p50"] == pytest.approx(100, rel=0.1)
    assert large["token_ms"]["p50"] == pytest.approx(4, rel=0.1)
    assert large["reference_of"] == ["demo"] and large["output_usd_per_mtok"] == 10


async def test_an_operator_drains_and_restores_and_it_is_noted(pages: Site) -> None:
    operator = await pages.person("operator")
    done = await operator.post("/engines/drain", {"engine": "large", "reason": "maintenance"})
    assert done.status == 303 and done.headers["Location"] == "/engines"
    page = (await operator.get("/engines")).text
    assert "large is drained" in page and "maintenance" in page and "Restore" in page
    assert "large is drained: workers" not in (await operator.get("/engines")).text, "it is said once"
    assert [one.engine for one in pages.sources.store.jobs.engine_states.drained()] == ["large"]
    again = await operator.post("/engines/drain", {"engine": "large"}, Accept="application/json")
    assert again.status == 409 and "already" in again.json["error"]["message"]
    assert (await operator.post("/engines/restore", {"engine": "large"})).status == 303
    assert pages.sources.store.jobs.engine_states.drained() == []
    rows = pages.sources.store.audit.page(limit=3)
    assert [(row.action, row.target, row.outcome) for row in rows] == [
        ("/engines/restore", "large", "done"),
        ("/engines/drain", "", "failed"),
        ("/engines/drain", "large", "done"),
    ]
    assert rows[2].detail == {"reason": "maintenance"} and rows[2].user == "a-operator"


async def test_an_engine_nobody_configured_cannot_be_drained(pages: Site) -> None:
    operator = await pages.person("operator")
    got = await operator.post("/engines/drain", {"engine": "<b>"}, Accept="application/json")
    assert got.status == 409 and pages.sources.store.jobs.engine_states.drained() == []


@pytest.mark.parametrize("role", ["viewer", "viewer-content"])
async def test_who_is_no_operator_changes_nothing(pages: Site, role: str) -> None:
    person = await pages.person(role)
    assert (await person.post("/engines/drain", {"engine": "large"})).status == 403
    assert pages.sources.store.jobs.engine_states.drained() == []
    assert "Drain" not in (await person.get("/engines")).text
    refused = await asyncio.to_thread(pages.sources.store.audit.page, limit=1)
    assert (refused[0].action, refused[0].outcome) == ("/engines/drain", "refused")


async def test_a_failing_engine_is_shown_as_such(pages: Site) -> None:
    say(pages, "w1", 0)
    say(pages, "w2", 0, "down", "connect: No connection to 10.0.0.7:8000")
    viewer = await pages.person("viewer")
    large = (await viewer.get("/engines.json")).json["engines"][1]
    assert (large["state"], large["replicas"][0]["error"]) == (
        "down",
        "connect: No connection to 10.0.0.7:8000",
    )
    assert large["replicas"][0]["since_s"] and large["replicas"][0]["error_at_s"]
    assert "No connection to 10.0.0.7:8000" in (await viewer.get("/engines")).text


async def test_an_engine_stands_as_its_best_replica_does(pages: Site) -> None:
    say(pages, "w1", 0, "down", replica="a:1")
    say(pages, "w1", 0, "up", replica="b:1")
    pages.sources.store.jobs.engine_states.drain("large", "ann", "", "b:1").result(60)
    operator = await pages.person("operator")
    assert "Restore" in (await operator.get("/engines")).text
    large = (await operator.get("/engines.json")).json["engines"][1]
    assert [(one["replica"], one["state"]) for one in large["replicas"]] == [
        ("a:1", "down"),
        ("b:1", "drained"),
    ]
    assert large["state"] == "drained" and large["drained"] is None, "one of them is, not the engine"
    assert large["workers"] == 1 and "<code>a:1</code>" in (await operator.get("/engines")).text
