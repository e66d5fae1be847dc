"""Trends say what the log and the books say, whatever the range, tenant, key or model."""

from __future__ import annotations

import asyncio
import csv
import io
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from store.decisions.usage import Amounts, Used
from store.records import OutcomeRecord
from tests.admin.site import Site, site
from tests.admin.test_summaries_overview import note

NOW = time.time()


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        await asyncio.to_thread(fill, made)
        yield made


def fill(pages: Site) -> None:
    """Two hours ago 4 offloaded, of another tenant 1 by the reference; ten minutes ago 2 offloaded, 1 failed over, 1 failed,
    1 hit."""
    large = {"engine": "large", "cost_usd": 0.02, "reference_cost_usd": 0.02, "example_ids": ()}
    small = {"engine": "small", "cost_usd": 0.001, "reference_cost_usd": 0.02, "policy": "fixed"}
    stood_in = {
        "engine": "small",
        "cost_usd": 0.001,
        "reference_cost_usd": None,
        "failed_over": "large; server",
    }
    for number in range(4):
        note(pages, number, started_at_s=NOW - 7200, key_id="k1", total_ms=100.0 * (number + 1), **small)
    note(pages, 4, started_at_s=NOW - 7200, tenant="b2", total_ms=9000.0, **large)
    for number in (5, 6):
        note(pages, number, started_at_s=NOW - 600, first_chunk_ms=50.0, key_id="k2", **small)
    note(pages, 7, started_at_s=NOW - 600, **stood_in)
    note(pages, 8, started_at_s=NOW - 600, engine="large", outcome="failed", status=502, cost_usd=0.0)
    hit = {"engine": "", "outcome": "hit", "cost_usd": 0.0, "reference_cost_usd": 0.02}
    note(pages, 9, started_at_s=NOW - 600, **hit)
    judged = [
        OutcomeRecord(*(f"req-{i}", "a1", NOW - 600, "judge", "k", "small", (), True, 1.0 if i % 2 else 0.5))
        for i in (0, 1, 5)
    ]
    pages.sources.store.outcomes.note_many(judged).result(60)
    amounts = Amounts(requests=1, cost_usd=0.003)
    pages.sources.store.decisions.usage.book(Used(NOW - 600, "a1", amounts, "judge", model="demo")).result(60)


async def asked(pages: Site, query: str = "") -> dict[str, Any]:
    viewer = await pages.person("viewer")
    got = await viewer.get(f"/trends.json{query}")
    assert got.status == 200, got.text
    assert (await viewer.get(f"/trends{query}")).status == 200
    found: dict[str, Any] = got.json
    return found


async def test_every_range_adds_up_to_what_happened_in_it(pages: Site) -> None:
    for span in ("day", "week", "month"):
        total = (await asked(pages, f"?span={span}"))["total"]
        assert (total["requests"], total["offloaded"], total["reference"]) == (10, 6, 1)
        assert (total["failed_over"], total["failed"], total["cache_hits"]) == (1, 1, 1)
        assert total["cost_usd"] == pytest.approx(0.027)
        # What another engine charged than was decided on says nothing of what was saved.
        assert total["saved_usd"] == pytest.approx(6 * 0.019 + 0.02 - 0.003)
        assert total["overheads_usd"] == pytest.approx(0.003)
    hour = await asked(pages, "?span=hour")
    assert hour["width_s"] == 60 and hour["total"]["requests"] == 5
    assert hour["total"]["overheads_usd"] is None and hour["total"]["saved_usd"] == pytest.approx(0.058)


async def test_the_range_is_no_longer_than_what_there_is(pages: Site, tmp_path: Path) -> None:
    assert (await asked(pages))["span"] == "day"
    async with site(tmp_path / "young") as young:
        assert (await asked(young))["span"] == "day"
        for minutes_ago, span in ((10, "15min"), (50, "hour"), (90, "day")):
            await asyncio.to_thread(note, young, minutes_ago, started_at_s=time.time() - 60 * minutes_ago)
            assert (await asked(young))["span"] == span
            assert (await asked(young, "?span=hour"))["span"] == "hour"
            viewer = await young.person("viewer")
            overview = (await viewer.get("/overview.json")).json
            assert overview["span"] == ("15min" if minutes_ago == 10 else "hour")


async def test_a_range_of_ones_own_is_read_in_the_zone_of_the_pages(pages: Site) -> None:
    def field(at_s: float) -> str:
        return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M")

    found = await asked(pages, f"?from={field(NOW - 5 * 3600)}&to={field(NOW - 3600)}")
    assert found["width_s"] == 3600 and found["span"] == ""
    assert found["total"]["requests"] == (5 if NOW % 3600 > 600 else found["total"]["requests"])
    viewer = await pages.person("viewer")
    for query, named in (
        ("from=2026-01-02T00:00&to=2026-01-01T00:00", "from"),
        ("from=2001-01-01T00:00", "from"),
        ("from=yesterday", "from"),
        ("span=decade", "span"),
    ):
        got = await viewer.get(f"/trends.json?{query}")
        assert got.status == 400 and got.json["error"]["message"].startswith(named), query


async def test_of_a_tenant_a_model_or_a_key_only_theirs_is_told(pages: Site) -> None:
    other = await asked(pages, "?tenant=b2")
    assert other["total"]["requests"] == 1 and not other["quality"]["measured"] and other["timed"] == 1
    (row,) = [row for row in other["rows"] if row["requests"]]
    assert row["latency_p50_ms"] == row["latency_p95_ms"] == 9000.0 and row["ttft_p50_ms"] == 30.0
    gone = await asked(pages, "?tenant=deleted")
    assert ["deleted", "Deleted tenants"] in gone["choices"]["tenants"], "or its form would say all"
    assert (await asked(pages, "?model=demo"))["total"]["requests"] == 10
    assert (await asked(pages, "?model=other"))["total"]["requests"] == 0
    key = pages.sources.store.keys.create("acme", "k")[0]
    note(pages, 20, tenant=key.tenant, key_id=key.id, engine="small", cost_usd=0.5)
    of_key = await asked(pages, f"?key={key.id}")
    assert of_key["total"]["requests"] == 1 and of_key["total"]["cost_usd"] == pytest.approx(0.5)
    assert of_key["total"]["offloaded"] is None
    viewer = await pages.person("viewer")
    assert (await viewer.get("/trends?key=key_none")).status == 404
    assert (await viewer.get(f"/trends?key={key.id}&tenant=a1")).status == 400


async def test_quality_has_an_interval_and_stands_beside_what_was_saved(pages: Site) -> None:
    found = await asked(pages)
    assert found["quality"]["offloaded"]["judge"]["count"] == 3
    known = [row for row in found["rows"] if row["judged"]]
    assert sum(row["judged"] for row in known) == 3
    assert all(row["quality_low"] < row["quality_high"] for row in known)
    traces = found["charts"]["quality"]["traces"]
    assert len(traces[0]["y"]) == len(known) and traces[0]["error_y"]["array"]
    viewer = await pages.person("viewer")
    assert "3 judged)" in (await viewer.get("/trends")).text


async def test_all_of_it_can_be_taken_along_as_csv(pages: Site) -> None:
    viewer = await pages.person("viewer")
    got = await viewer.get("/trends.csv?span=day")
    rows = list(csv.DictReader(io.StringIO(got.text.lstrip("\ufeff"))))
    assert got.status == 200 and sum(int(row["requests"]) for row in rows) == 10
    assert {
        "start",
        "cost_usd",
        "saved_usd",
        "quality_low",
        "ttft_p95_ms",
        "latency_p50_ms",
        "failed",
    } <= set(rows[0])
    assert "/trends.csv" in (await viewer.get("/trends")).text
