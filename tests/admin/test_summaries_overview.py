"""The overview's figures, from a log that is known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from admin.summaries.overview import RATE_S
from admin.summaries.spans import SPANS
from learning.outcomes.account import IN_VAIN_USD, UNREAD
from store.jobs.operator_asks import OperatorAsk
from store.records import OutcomeRecord
from tests.admin.site import Site, site
from tests.store.rows import request_record


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


def note(pages: Site, number: int, **changes: Any) -> None:
    fields = {"model": "demo", "started_at_s": time.time() - 60, "tenant": "a1", **changes}
    pages.sources.store.decisions.requests.record(request_record(number, **fields)).result(60)


def fill(pages: Site) -> None:
    """10 cache hits, 20 offloaded, 30 by the reference, 5 failed, 12 failed over."""
    for i in range(77):
        kind: dict[str, Any] = {
            "engine": "large",
            "cost_usd": 0.02,
            "reference_cost_usd": 0.02,
            "example_ids": (),
        }
        if i < 10:
            kind = {"engine": "", "outcome": "hit", "cost_usd": 0.0, "reference_cost_usd": 0.02}
        elif i < 30:
            kind = {"engine": "small", "cost_usd": 0.001, "reference_cost_usd": 0.02}
        elif i >= 65:
            kind = {
                "engine": "small",
                "failed_over": "large; server",
                "cost_usd": 0.0,
                "reference_cost_usd": None,
            }
        elif i >= 60:
            kind = {"engine": "large", "outcome": "failed", "status": 502, "cost_usd": 0.0}
        note(pages, i, stages_ms='{"embed": 2.0, "choose": 0.5}', overhead_ms=3.0, **kind)


async def test_figures_are_the_logs(pages: Site) -> None:
    await asyncio.to_thread(fill, pages)
    viewer = await pages.person("viewer")
    for span in SPANS:
        got = (await viewer.get(f"/overview.json?span={span}")).json
        assert got["kinds"] == {
            "cache_hit": 10,
            "offloaded": 20,
            "reference": 30,
            "failed_over": 12,
            "failed": 5,
        }
        assert got["hit_share"] == pytest.approx(10 / 77)
        assert got["offload_share"] == pytest.approx(20 / 50)
        money = got["money"]
        assert money["paid_usd"] == pytest.approx(0.62)
        assert money["always_large_usd"] == pytest.approx(1.2)
        assert money["saved_usd"] == pytest.approx(0.58)
        assert money["saved_by"] == pytest.approx(
            {"cache_hit": 0.2, "offloaded": 0.38, "students": 0.0, "other": 0.0}
        )
        assert money["before_learning_usd"] == pytest.approx(0.58) and money["learning_usd"] == 0.0
        assert sum(bar["offloaded"] for bar in got["traffic"]) == 20
        small = next(group for group in got["stages"] if group["engine"] == "small")
        assert small["stages_ms"] == {"embed": 2.0, "choose": 0.5} and small["other_ms"] == pytest.approx(0.5)
        assert small["engine_ms"] == pytest.approx(117.0)


async def test_what_an_outage_costs_is_charged_and_not_compared(pages: Site) -> None:
    await asyncio.to_thread(fill, pages)
    viewer = await pages.person("viewer")
    assert "Not compared" not in (await viewer.get("/overview")).text
    before = (await viewer.get("/overview.json")).json
    over = {"failed_over": "large; server", "engine": "small", "reference_cost_usd": None, "cost_usd": 0.05}
    for number in range(100, 104):
        note(pages, number, **over)
    after = (await viewer.get("/overview.json")).json
    assert after["kinds"]["failed_over"] == before["kinds"]["failed_over"] + 4
    assert after["offload_share"] == before["offload_share"]
    money = after["money"]
    assert money["saved_usd"] == pytest.approx(before["money"]["saved_usd"])
    assert money["unreckoned_usd"] == pytest.approx(0.2)
    # The table adds up to what was saved.
    assert money["always_large_usd"] - money["paid_usd"] + money["unreckoned_usd"] == pytest.approx(
        money["saved_usd"]
    )
    assert "Not compared" in (await viewer.get("/overview")).text


async def test_every_figure_leads_to_a_list_of_as_many_requests(pages: Site) -> None:
    await asyncio.to_thread(fill, pages)
    await asyncio.to_thread(note, pages, 90, engine="small", example_ids=(1,), model="not-served-here")
    await asyncio.to_thread(note, pages, 91, engine="small", example_ids=(), model="demo")
    viewer = await pages.person("viewer")
    page = (await viewer.get("/overview?span=day")).text
    for span in SPANS:
        kinds = (await viewer.get(f"/overview.json?span={span}")).json["kinds"]
        for kind, count in kinds.items():
            way = "hit" if kind == "cache_hit" else kind
            path = f"/requests?within={span}&way={way}"
            rows, more = [], f"{path.partition('?')[2]}"
            while more:
                found = (await viewer.get(f"/requests.json?{more}")).json
                rows, more = rows + found["rows"], found["older"]
            assert len(rows) == count, path
            if kind not in ("reference",):
                assert f"way={way}" in page, "the figure leads to its list"


async def test_the_rate_is_that_of_the_last_minute_however_long_it_was_quiet_before(pages: Site) -> None:
    now_s = time.time()
    for number in range(120):
        note(pages, number, started_at_s=now_s - number / 2)
    viewer = await pages.person("viewer")
    for span in SPANS:
        got = (await viewer.get(f"/overview.json?span={span}")).json
        assert 108 <= got["per_second"] * RATE_S <= 120
    assert "per second in the last minute" in (await viewer.get("/overview")).text


async def test_what_finding_out_cost_is_taken_off_what_was_saved(pages: Site) -> None:
    await asyncio.to_thread(fill, pages)
    judged = [
        OutcomeRecord(
            *(f"req-{i}", "a1", time.time(), "judge", "k", "small", (), True, 1.0 if i % 4 else 0.5),
            probability=0.5,
            cost_usd=0.01,
        )
        for i in range(10, 30)
    ]
    pages.sources.store.outcomes.note_many(judged).result(60)
    viewer = await pages.person("viewer")
    got = (await viewer.get("/overview.json")).json
    assert got["money"]["judging_usd"] == pytest.approx(0.2) and got["money"]["unread"] == 0
    assert got["money"]["saved_usd"] == pytest.approx(0.38)
    # Also what it cost in vain.
    spending, now_s = pages.sources.store.decisions.spending, time.time()
    spending.settle("a1", IN_VAIN_USD, 0.0, 0.08, now_s)
    spending.settle("a1", UNREAD, 0.0, 2, now_s).result(60)
    money = (await viewer.get("/overview.json")).json["money"]
    assert money["saved_usd"] == pytest.approx(0.3) and money["unread"] == 2
    assert "verdicts on 2 answers could not be read" in (await viewer.get("/overview")).text
    # Outcomes without a choice name no model: nobody knows which reference they are held against.
    assert not got["quality"]["measured"]

    for tenant in ("a1", "b2"):
        asked = OperatorAsk(time.time(), "ann", tenant, "req-10", "large", False, 0.08, 10, 10, 0.5)
        pages.sources.store.jobs.operator_asks.note(asked).result(60)
    pages.sources.store.jobs.replay.side_costs.book("a1", "large", "near_miss", 0.05).result(60)
    got = (await viewer.get("/overview.json?tenant=a1")).json
    assert got["money"]["manual_queries_usd"] == pytest.approx(0.08)
    assert got["money"]["replay_usd"] == pytest.approx(0.05)
    assert got["money"]["saved_usd"] == pytest.approx(0.17)
    assert got["money"]["learning_usd"] == pytest.approx(0.2 + 0.08 + 0.05)
    page = (await viewer.get("/overview?tenant=a1")).text
    assert "that learning spent" in page and "Saved before what learning spends" in page


async def test_what_a_tasks_student_saves_is_told_apart_and_extra_calls_are_taken_off(pages: Site) -> None:
    await asyncio.to_thread(note, pages, 1, engine="student", cost_usd=0.0, reference_cost_usd=0.02)
    await asyncio.to_thread(note, pages, 2, engine="large", cost_usd=0.03, reference_cost_usd=0.02)
    money = (await (await pages.person("viewer")).get("/overview.json")).json["money"]
    assert money["saved_by"]["students"] == pytest.approx(0.02)
    assert money["saved_by"]["other"] == pytest.approx(-0.01)
    assert money["saved_usd"] == pytest.approx(0.01)


def said(pages: Site, source: str, qualities: list[float], engine: str = "small") -> None:
    """Outcomes of offloaded answers of requests 10 and on, which `fill` noted."""
    found = []
    for place, quality in enumerate(qualities):
        note(pages, 1000 + place, id=f"{source}-{place}", engine=engine, policy="fixed", cost_usd=0.0)
        about = (f"{source}-{place}", "a1", time.time() - 30, source, "k", engine, (), True, quality)
        found.append(OutcomeRecord(*about, probability=0.5 if source == "judge" else 1.0))
    pages.sources.store.outcomes.note_many(found).result(60)


async def test_savings_stand_beside_the_quality_they_were_made_at_or_that_nobody_measured_it(
    pages: Site,
) -> None:
    await asyncio.to_thread(fill, pages)
    viewer = await pages.person("viewer")
    page = (await viewer.get("/overview")).text
    assert "quality not measured" in page and "not measured: set judging.engine" not in page
    await asyncio.to_thread(said, pages, "user", [1.0, 0.0, 1.0])
    got, page = (await viewer.get("/overview.json")).json, (await viewer.get("/overview")).text
    assert (
        got["quality"]["offloaded"]["judge"] is None and got["quality"]["offloaded"]["feedback"]["count"] == 3
    )
    assert "66.7" in page and "3 rated)" in page and "quality not measured" not in page
    await asyncio.to_thread(said, pages, "judge", [1.0] * 19 + [0.0])
    got, page = (await viewer.get("/overview.json")).json, (await viewer.get("/overview")).text
    judged = got["quality"]["offloaded"]["judge"]
    assert judged["mean"] == pytest.approx(0.95) and judged["low"] < 0.9 and judged["count"] == 20
    assert "20 judged)" in page and "people who rate are no random sample" in page


@pytest.mark.slow
@pytest.mark.parametrize(("source", "count"), [("judge", 100), ("user", 200)])
async def test_a_useless_small_engine_is_critical_beside_any_guarantee_and_without(
    pages: Site, source: str, count: int
) -> None:
    await asyncio.to_thread(said, pages, source, [0.0] * count)
    viewer = await pages.person("viewer")
    got = (await viewer.get("/overview.json")).json
    (alarm,) = [one for one in got["attention"] if "small for demo" in one["says"]]
    assert alarm["state"] == "critical" and "0.0% (95% interval 0.0% to" in alarm["says"]
    assert f"{count} {'judged' if source == 'judge' else 'rated by feedback'}" in alarm["says"]
    assert got["quality"]["standings"][0]["level"] == "critical" and got["floors"] == []
    page = (await viewer.get("/overview")).text
    assert "Quality by engine, lately" in page and "where at least 90% is wanted" in page
    # A tenant's page tells of that tenant's answers alone, and leads to its trends; of another one's nothing is said.
    of_one = (await viewer.get("/overview.json?tenant=a1")).json["attention"]
    (alarm,) = [one for one in of_one if "small for demo" in one["says"]]
    assert "Quality of small for demo (a1): 0.0%" in alarm["says"]
    assert alarm["href"] == "/trends?model=demo&tenant=a1"
    assert not (await viewer.get("/overview.json?tenant=b2")).json["quality"]["standings"]


async def test_nothing_of_another_tenant_is_in_a_tenants_figures(pages: Site) -> None:
    await asyncio.to_thread(fill, pages)
    note(pages, 100, tenant="b2", cost_usd=7.0)
    viewer = await pages.person("viewer")
    got = (await viewer.get("/overview.json?tenant=b2")).json
    assert got["requests"] == 1 and got["money"]["paid_usd"] == pytest.approx(7.0)
    assert {one["id"] for one in got["tenants"]} == {"a1", "b2"}


async def test_an_empty_log_says_what_to_do(pages: Site) -> None:
    viewer = await pages.person("viewer")
    assert "base_url" in (await viewer.get("/overview")).text
    got = (await viewer.get("/overview.json")).json
    assert got["requests"] == 0 and got["hit_share"] is None and got["quality"]["all"] is None


async def test_figures_grow_while_somebody_looks(pages: Site) -> None:
    viewer = await pages.person("viewer")
    async with viewer.session.get(pages.url + "/live") as stream:
        assert (await stream.content.readline()).startswith(b"retry")
        await stream.content.readline()
        await asyncio.sleep(0.6)
        await asyncio.to_thread(note, pages, 1)
        async with asyncio.timeout(10):
            assert await stream.content.readline() == b"event: news\n"
    assert (await viewer.get("/overview.json")).json["requests"] == 1
