"""The engines page: what workers say, what the log says, and draining."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from store.decisions.usage import Amounts, Used
from store.jobs.engine_states import EngineStateRow
from tests.admin.site import Site, site
from tests.engines.asking import closed_port
from tests.store.rows import request_record


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


def say(
    pages: Site,
    worker: str,
    in_flight: int,
    state: str = "up",
    error: str = "",
    replica: str = "",
    asked: int = 10,
    **more: Any,
) -> None:
    row = EngineStateRow(
        *(worker, "large", time.time(), in_flight, 1, 8, in_flight / 8, "closed", False, asked, 2),
        *(0.5, 2.0, None, None, replica, state, time.time(), error, time.time() if error else None),
        **more,
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
    assert (small["name"], small["state"], small["workers"]) == ("small", "untested", 0)
    assert (large["in_flight"], large["queued"], large["workers"], large["state"]) == (10, 2, 2, "up")
    assert (large["asked"], large["failed"], large["utilisation"]) == (20, 4, 1.0)
    assert (large["requests"], large["failed_requests"]) == (20, 2)
    assert large["ttft_ms"]["p50"] == pytest.approx(100, rel=0.1)
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
        ("engines/resume", "large", "done"),
        ("engines/drain", "", "failed"),
        ("engines/drain", "large", "done"),
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
    reader = await pages.person("viewer-content")
    large = (await reader.get("/engines.json")).json["engines"][1]
    assert (large["state"], large["replicas"][0]["error"]) == (
        "down",
        "connect: No connection to 10.0.0.7:8000",
    )
    assert large["since_s"] and large["replicas"][0]["since_s"] and large["replicas"][0]["error_at_s"]
    assert "No connection to 10.0.0.7:8000" in (await reader.get("/engines")).text
    viewer = await pages.person("viewer")
    (replica,) = (await viewer.get("/engines.json")).json["engines"][1]["replicas"]
    assert (replica["error"], replica["error_kind"]) == (None, "connect"), "its words may quote a prompt"
    page = (await viewer.get("/engines")).text
    assert "10.0.0.7" not in page and "connection failed" in page


async def test_a_worker_that_asked_nothing_says_nothing(pages: Site) -> None:
    say(pages, "w1", 0, "unknown", asked=0)
    say(pages, "w2", 0, "up")
    viewer = await pages.person("viewer")
    assert (await viewer.get("/engines.json")).json["engines"][1]["state"] == "up"


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


async def test_an_engine_that_nobody_asked_is_untested_and_a_probe_is_timed(pages: Site) -> None:
    viewer = await pages.person("viewer")
    say(pages, "w1", 0, "unknown", asked=0)
    page = (await viewer.get("/engines")).text
    assert "ready" not in page and "untested" in page
    (replica,) = (await viewer.get("/engines.json")).json["engines"][1]["replicas"]
    assert (replica["state"], replica["probe"]) == ("untested", None)
    now_s = time.time()
    say(pages, "w1", 0, "up", asked=0, probed_at_s=now_s - 9, probe_ms=7.5)
    say(pages, "w2", 0, "up", asked=0, probed_at_s=now_s, probe_ms=3.5)
    large = (await viewer.get("/engines.json")).json["engines"][1]
    assert large["replicas"][0]["probe"] == {"at_s": now_s, "ms": 3.5, "error": ""}, (
        "the latest of any worker"
    )
    assert "3.5\u202fms" in (await viewer.get("/engines")).text


async def test_errors_by_kind_are_those_of_the_period_whether_their_workers_live_or_not(pages: Site) -> None:
    states, now_s = pages.sources.store.jobs.engine_states, time.time()
    states.add_errors({("large", "server"): 2}, now_s - 3 * 3600).result(60)
    states.add_errors(
        {("large", "server"): 1, ("large", "dns"): 5, ("large", "unmergeable:mood"): 4}, now_s
    ).result(60)
    viewer = await pages.person("viewer")
    large = (await viewer.get("/engines.json?span=day")).json["engines"][1]
    assert large["workers"] == 0 and list(large["errors"].items()) == [("dns", 5), ("server", 3)]
    assert "name not found (DNS) 5, server error (5xx) 3" in (await viewer.get("/engines")).text
    hour = await viewer.get("/engines.json?span=hour")
    assert hour.json["engines"][1]["errors"] == {"dns": 5, "server": 1}
    assert hour.json["engines"][1]["unmerged"] == {"mood": 4}
    assert "4 answers whose chunks say <code>mood</code>" in (await viewer.get("/engines?span=hour")).text


async def test_what_the_gateway_asks_of_its_own_accord_is_charged_to_the_engine(pages: Site) -> None:
    amounts = Amounts(requests=1584, prompt_tokens=9000, completion_tokens=1000, cost_usd=0.166)
    used = Used(time.time() - 60, "t1", amounts, "judge", engine="large")
    pages.sources.store.decisions.usage.book(used).result(60)
    viewer = await pages.person("viewer")
    large = (await viewer.get("/engines.json?span=day")).json["engines"][1]
    assert large["background"] == [{"line": "judge", "requests": 1584, "tokens": 10_000, "usd": 0.166}]
    assert "$0 for 0 tokens of requests;" in (await viewer.get("/engines?span=day")).text, (
        "beside the judging"
    )
    assert (
        "$0.166 for 10\u202f000 tokens of judging (1\u202f584 calls)" in (await viewer.get("/engines")).text
    )


async def test_a_test_asks_the_engine_and_what_came_of_it_is_kept(tmp_path: Path) -> None:
    dead = {"base_url": f"http://127.0.0.1:{closed_port()}/v1", "model": "m", "api_key": "house-key"}
    quick = {"kind": "simulated", "role": "lead", "ttft_ms": 0, "token_ms": 0, "facts": 10}
    engines = {"engines": {"good": quick, "dead": dead}, "models": {"demo": {"engines": ["good"]}}}
    async with site(tmp_path, **engines) as pages:
        operator = await pages.person("operator")
        assert (await operator.post("/engines/test", {"engine": "good"})).status == 303
        assert "good passed its test: answered in" in (await operator.get("/engines")).text
        await operator.post("/engines/test", {"engine": "dead"})
        good, dead = (await operator.get("/engines.json")).json["engines"]
        (passed,), (failed,) = good["tests"], dead["tests"]
        assert passed["good"] and passed["answer_ms"] is not None and passed["by"] == "a-operator"
        assert not failed["good"] and "health check failed" in failed["said"] and failed["answer_ms"] is None
        assert pages.sources.store.audit.page(limit=1)[0].detail == {"good": False, "cost_usd": 0.0}
        got = await operator.post("/engines/test", {"engine": "nobody"}, Accept="application/json")
        assert got.status == 409
        viewer = await pages.person("viewer")
        assert (await viewer.post("/engines/test", {"engine": "good"})).status == 403
        for path in ("/engines", "/engines.json", "/engines.csv", "/overview.json"):
            got = await viewer.get(path)
            assert got.status == 200 and "health check failed" not in got.text, "it may quote the engine"


async def test_one_replica_is_drained_by_itself(pages: Site) -> None:
    say(pages, "w1", 0, replica="a:1")
    say(pages, "w1", 0, replica="b:1")
    operator = await pages.person("operator")
    assert "<option>a:1</option>" in (await operator.get("/engines")).text
    assert (await operator.post("/engines/drain", {"engine": "large", "replica": "a:1"})).status == 303
    assert [one.replica for one in pages.sources.store.jobs.engine_states.drained()] == ["a:1"]
    fields = {"engine": "large", "replica": "c:1"}
    assert (await operator.post("/engines/drain", fields, Accept="application/json")).status == 409
