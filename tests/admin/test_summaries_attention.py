"""What is wrong stands first on the overview, with a way to it; where all is well nothing does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.jobs.replay_records import ReplayBudget
from store.learned.quality_floors import FloorRow
from tests.admin.runs_kept import of_workflow
from tests.admin.site import Site, site
from tests.admin.test_summaries_engines import say
from tests.admin.test_summaries_overview import note
from tests.store.rows import request_record


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


async def said(pages: Site) -> list[tuple[str, str, str]]:
    viewer = await pages.person("viewer")
    told = (await viewer.get("/overview.json")).json["attention"]
    for one in told:
        path = one["href"].partition("#")[0]
        assert (await viewer.get(path)).status == 200, f"{one['href']} leads nowhere"
    return [(one["state"], one["says"], one["href"]) for one in told]


async def test_where_all_is_well_nothing_asks_for_attention(pages: Site) -> None:
    await asyncio.to_thread(say, pages, "w1", 1)
    await asyncio.to_thread(note, pages, 1, engine="large", cost_usd=0.02, reference_cost_usd=0.02)
    assert await said(pages) == []
    assert "Needs attention" not in (await (await pages.person("viewer")).get("/overview")).text


async def test_a_gateway_that_is_silent_is_the_first_thing_to_say(pages: Site) -> None:
    (told,) = await said(pages)
    assert told[0] == "critical" and "No worker has spoken" in told[1]


async def test_a_run_that_waits_for_a_decision_is_named(pages: Site) -> None:
    await asyncio.to_thread(say, pages, "w1", 1)
    of_workflow(pages.sources.store, "run_1", time.time() - 60, ends=False)
    ((state, says, href),) = await said(pages)
    assert (state, href) == ("warning", "/runs/run_1") and says.startswith("book of a run")


@pytest.mark.parametrize(
    ("usual_ms", "answers", "says"),
    [
        (800.0, 100, "large is slow: an answer takes 2.0"),
        (800.0, 99, ""),
        (1_500.0, 100, ""),
    ],
    ids=["twice as long", "too few to know", "a little longer"],
)
async def test_an_engine_that_takes_longer_than_in_the_day_before_is_named(
    pages: Site, usual_ms: float, answers: int, says: str
) -> None:
    """Its latest answers took 2 s each."""
    await asyncio.to_thread(say, pages, "w1", 1)
    for number in range(answers):
        record = request_record(
            *(number,),
            engine="large",
            model="demo",
            started_at_s=time.time() - 3 * 3600 - number,
            total_ms=usual_ms,
        )
        pages.sources.store.decisions.requests.record(record)
    assert await asyncio.to_thread(pages.sources.store.drain, 60)
    told = await said(pages)
    assert [text.startswith(says) for _, text, _ in told] == [True] * bool(says)
    assert [href for _, _, href in told] == ["/engines#engine-large"] * bool(says)


async def test_what_fails_comes_before_what_waits_and_each_has_its_page(pages: Site) -> None:
    def make() -> None:
        say(pages, "w1", 1, "down")
        pages.sources.store.jobs.engine_states.drain("small", "ann", "").result(60)
        pages.sources.store.quality_floors.put(
            FloorRow("a1", "demo", 0.0, 0.1, "threatened", 0, 0, "{}")
        ).result(60)
        for number in range(10):
            outcome = "failed" if number < 2 else "answered"
            note(pages, number, outcome=outcome, cost_usd=0.02, reference_cost_usd=0.0)
        run = pages.sources.store.jobs.replay.want("", ReplayBudget(usd=1.0), asked_by="ann").result(60)
        pages.sources.store.jobs.replay.begin(run).result(60)
        pages.sources.store.jobs.replay.end(run, "failed", "no judge").result(60)

    await asyncio.to_thread(make)
    told = await said(pages)
    assert [one[0] for one in told] == ["critical"] * 4 + ["warning"] * 2
    assert [one[2] for one in told] == [
        "/engines#engine-large",
        "/router?model=demo",
        "/requests?way=failed&within=hour",
        "/replay/1",
        "/engines#engine-small",
        "/settings?q=share",
    ]
    page = (await (await pages.person("viewer")).get("/overview")).text
    assert "Needs attention" in page and "20% of the requests failed" in page
