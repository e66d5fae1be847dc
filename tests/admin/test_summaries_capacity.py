"""The overview says what workers can do, and what they shed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from admin.summaries.capacity import WORK
from router.shedding import ORDER
from store.jobs.live_load import SHED, LoadReport, Standing
from tests.admin.site import Site, site


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


def test_every_kind_of_work_has_a_name_and_a_place() -> None:
    assert tuple(WORK) == ORDER and len(ORDER) == SHED


async def test_what_workers_can_do_and_what_they_shed_is_shown(pages: Site) -> None:
    viewer = await pages.person("viewer")
    assert "No worker reports" in (await viewer.get("/overview")).text
    calm, pressed = LoadReport(pages.sources.store.folder), LoadReport(pages.sources.store.folder)
    try:
        calm.say(Standing(1, 0.0, 0.25, 100.0))
        assert "Load shedding:" not in (await viewer.get("/overview")).text
        pressed.say(Standing(9, 0.0, 0.95, 140.0, 3, (40, 30, 2000, 0, 0)))
        got = (await viewer.get("/overview.json")).json
        workers = got["workers"]
        assert workers["workers"] == 2 and workers["core_share"] == pytest.approx(1.2)
        assert workers["capacity_per_s"] == pytest.approx(240)
        assert workers["shedding"] == ["shadow comparisons", "checks of proven engines", "request texts"]
        assert {one["what"]: one["count"] for one in workers["shed"]} == {
            "shadow": 40,
            "checks": 30,
            "texts": 2000,
            "examples": 0,
            "details": 0,
        }
        shown = (await viewer.get("/overview")).text
        assert "Load shedding: overloaded workers drop shadow comparisons, checks of proven engines" in shown
        assert "240 requests per second" in shown and "(request texts)" in shown and "1.20" in shown
        assert "(new examples)" not in shown
    finally:
        calm.close()
        pressed.close()
