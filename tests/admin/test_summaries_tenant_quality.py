"""A tenant whose answers are bad is named on the overview and among the tenants, however many others are well served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from admin.summaries.tenant_quality import tenant_quality
from store.records import OutcomeRecord
from tests.admin.site import Person, Site, site
from tests.patience import PATIENCE_S
from tests.store.rows import request_record


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


async def judged(pages: Site, tenant: str, qualities: Iterable[float], ago_s: float = 600.0) -> None:
    """Answers of the small engine to this tenant."""
    store = pages.sources.store

    def note() -> None:
        outcomes = []
        for number, quality in enumerate(qualities):
            id, at_s = f"{tenant}-{number}", time.time() - ago_s + number / 10
            record = request_record(
                number, id=id, tenant=tenant, model="demo", engine="small", policy="fixed", started_at_s=at_s
            )
            store.decisions.requests.record(record)
            outcomes.append(
                OutcomeRecord(id, tenant, at_s, "judge", "k", "small", (), True, quality, probability=1.0)
            )
        store.outcomes.note_many(outcomes).result(60)
        while store.decisions.quality.catch_up():
            pass

    await asyncio.to_thread(note)


async def told(pages: Site, viewer: Person) -> dict[str, Any]:
    """The overview, once what is computed beside it is there."""
    async with asyncio.timeout(PATIENCE_S):
        while tenant_quality(pages.sources) is None:
            await asyncio.sleep(0.01)
    found: dict[str, Any] = (await viewer.get("/overview.json")).json
    return found


def alarms(overview: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in overview["attention"] if "uality" in one["says"]]


async def test_the_worst_few_are_named_and_the_others_counted(pages: Site) -> None:
    viewer = await pages.person("viewer")
    acme = pages.sources.store.keys.create("acme", "app")[0].tenant
    await judged(pages, "good", [1.0] * 900, ago_s=300)
    await judged(pages, acme, [0.0] * 40)
    for number in range(4):
        await judged(pages, f"bad{number}", [0.0] * (28 - number) + [1.0] * (12 + number))
    overview = await told(pages, viewer)
    first, *_, last = alarms(overview)
    assert first["state"] == last["state"] == "critical"
    assert first["says"].startswith("Quality of small for demo (acme): 0.0%") and len(alarms(overview)) == 4
    assert first["href"] == f"/overview?tenant={acme}#quality"
    assert (last["says"], last["href"]) == ("and 2 more tenants with bad quality", "/tenants?sort=quality")
    tenants = overview["quality"]["tenants"]
    assert (tenants["measured"], tenants["critical"], tenants["warning"], tenants["alarms"]) == (6, 5, 0, 5)
    assert tenants["worst"][0]["tenant"] == acme and tenants["worst"][0]["tenant_name"] == "acme"
    own = (await viewer.get(f"/overview.json?tenant={acme}")).json
    assert own["quality"]["tenants"] is None and own["quality"]["standings"][0]["level"] == "critical"
    page = (await viewer.get("/overview")).text
    assert "Quality of small for demo (acme)" in page and "Tenants by quality" in page

    listed = (await viewer.get("/tenants.json?sort=quality")).json["tenants"]
    assert [one["quality"] for one in listed] == ["critical"] * 5 + ["good"]
    assert "/overview?tenant=bad0#quality" in (await viewer.get("/tenants?sort=quality")).text


async def test_what_everybodys_alarm_says_of_the_only_tenant_is_not_said_again(pages: Site) -> None:
    viewer = await pages.person("viewer")
    await judged(pages, "only", [0.0] * 40)
    overview = await told(pages, viewer)
    (one,) = alarms(overview)
    assert "only" not in one["says"] and one["href"] == "/trends?model=demo"
    assert overview["quality"]["tenants"]["critical"] == 1 and overview["quality"]["tenants"]["worst"] == []


async def test_where_nobodys_answers_are_measured_enough_nothing_is_said(pages: Site) -> None:
    viewer = await pages.person("viewer")
    await judged(pages, "few", [0.0] * 29)
    overview = await told(pages, viewer)
    assert alarms(overview) == [] and overview["quality"]["tenants"]["measured"] == 0
    (listed,) = (await viewer.get("/tenants.json")).json["tenants"]
    assert listed["quality"] == ""
