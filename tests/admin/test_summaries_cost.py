"""The cost page: sums by day, model and key that agree with the books, and what made a bill double stands first."""

from __future__ import annotations

import asyncio
import csv
import io
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from store.decisions.usage import Amounts, Line, Used
from tests.admin.site import Site, site

NOW = time.time()
DAY_S = 86_400


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        await asyncio.to_thread(fill, made)
        yield made


def fill(pages: Site) -> None:
    """A week ago one dollar for each of two keys; this week the second one spends three, with longer prompts."""
    web, _ = pages.sources.store.keys.create("acme", "web")
    batch, _ = pages.sources.store.keys.create("acme", "batch")

    def booked(days_ago: float, key_id: str, usd: float, tokens: int, line: Line = "answer") -> None:
        amounts = Amounts(requests=10, prompt_tokens=tokens, cost_usd=usd)
        used = Used(NOW - days_ago * DAY_S, web.tenant, amounts, line, key_id, "", "gpt-4o", "large", "chat")
        pages.sources.store.decisions.usage.book(used).result(60)

    booked(10, web.id, 1.0, 1000)
    booked(10, batch.id, 1.0, 1000)
    booked(3, web.id, 1.0, 1000)
    booked(3, batch.id, 1.0, 1000)
    booked(1, batch.id, 2.0, 5000)
    booked(1, "", 0.5, 100, "judge")


async def asked(pages: Site, query: str = "") -> dict[str, Any]:
    viewer = await pages.person("viewer")
    assert (await viewer.get(f"/cost{query}")).status == 200
    got = await viewer.get(f"/cost.json{query}")
    assert got.status == 200, got.text
    found: dict[str, Any] = got.json
    return found


async def test_what_made_the_bill_double_stands_first_beside_the_time_before(pages: Site) -> None:
    told = await asked(pages, "?span=week")
    assert (told["total"]["cost_usd"], told["total_before"]["cost_usd"]) == (4.5, 2.0)
    first = told["groups"][0]
    assert first["names"] == ["gpt-4o", "batch (acme)"]
    assert (first["cost_usd"], first["before_usd"], first["change_usd"]) == (3.0, 1.0, 2.0)
    assert (first["requests"], first["requests_before"]) == (20, 10)
    assert (first["parts"]["prompt_tokens"], first["parts_before"]["prompt_tokens"]) == (300.0, 100.0)
    viewer = await pages.person("viewer")
    behind = await viewer.get(f"/requests?{first['requests_link']}")
    assert behind.status == 200 and "batch" in behind.text
    (judging,) = [one for one in told["groups"] if one["line"] == "judge"]
    assert judging["cost_usd"] == 0.5 and judging["names"][1] == ""


async def test_requests_tokens_and_their_price_together_explain_the_whole_change(pages: Site) -> None:
    moved = {one["part"]: one for one in (await asked(pages, "?span=week"))["moved"]}
    # 20 requests of 100 tokens became 30 of 233 each, at $1,000 per million tokens then and $571 now.
    assert (moved["requests"]["now"], moved["requests"]["before"]) == (30.0, 20.0)
    assert moved["tokens"]["now"] == pytest.approx(7000 / 30) and moved["tokens"]["before"] == 100.0
    explained = {name: one["explains_usd"] for name, one in moved.items() if one["explains_usd"] is not None}
    assert explained["tokens"] > explained["requests"] > 0 > explained["usd_per_mtok"]
    assert sum(explained.values()) == pytest.approx(4.0 - 2.0)
    # Without a time before it there is nothing to explain.
    assert all(one["explains_usd"] is None for one in (await asked(pages, "?span=month"))["moved"])


@pytest.mark.parametrize("by", ["model-key", "model", "key", "tenant", "engine", "model-engine", "api"])
async def test_every_split_adds_up_to_the_same(pages: Site, by: str) -> None:
    told = await asked(pages, f"?span=month&by={by}")
    assert sum(one["cost_usd"] for one in told["groups"]) == pytest.approx(6.5)
    drawn = [value for trace in told["charts"]["cost"]["traces"] for value in trace["y"]]
    assert sum(drawn) == pytest.approx(6.5)


async def test_the_csv_has_a_row_for_each_day_model_and_key(pages: Site) -> None:
    viewer = await pages.person("viewer")
    got = await viewer.get("/cost.csv?span=week")
    rows = list(csv.DictReader(io.StringIO(got.text.removeprefix("\ufeff"))))
    answers = [row for row in rows if row["line"] == "answer"]
    assert [row["key_name"] for row in answers].count("batch (acme)") == 2 and len(answers) == 3
    assert sum(float(row["cost_usd"]) for row in rows) == pytest.approx(4.5)
    assert [row["day"] for row in rows] == sorted(row["day"] for row in rows)


async def test_a_key_and_a_tenant_narrow_it_and_a_wrong_range_is_refused(pages: Site) -> None:
    (key,) = [key for key in pages.sources.store.keys.list() if key.name == "web"]
    told = await asked(pages, f"?span=week&key={key.id}")
    assert told["total"]["cost_usd"] == 1.0 and len(told["groups"]) == 1
    assert (await asked(pages, "?tenant=nobody"))["groups"] == []
    viewer = await pages.person("viewer")
    for query in ("from=2026-01-02T00:00&to=2026-01-01T00:00", "from=2020-01-01T00:00", "by=colour"):
        assert (await viewer.get(f"/cost?{query}")).status == 400, query
