"""The page of what a log would have saved shows the report in the data folder, if there is one it can read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from admin.page import Asked, Viewer
from admin.pages.log_report import LOG_REPORT
from admin.roles import Role
from admin.summaries.log_report import log_report
from learning.logs.report import REPORT, Replayed, report
from tests.admin.site import Site, site


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


def stored(pages: Site, **more: Any) -> None:
    asked = [
        Replayed("demo", "abcdef123456", "exact", "cache_hit", 1.0),
        Replayed("demo", "", "reference", "novel", 2.0),
    ]
    said = {"made_at_s": 1.7e9, "budget_usd": 0.0, "spent_usd": 0.0, "older": 0, "left_out": {}}
    result = report(asked, priced=True) | said
    (pages.sources.store.folder / REPORT).write_text(json.dumps(result | more))


async def test_the_report_in_the_folder_is_shown(pages: Site) -> None:
    viewer = await pages.person("viewer")
    assert "No report in this data folder" in (await viewer.get(LOG_REPORT.path)).text
    stored(pages)
    page = (await viewer.get(LOG_REPORT.path)).text
    why = page.partition('aria-label="Why not more"')[2]
    assert "too few requests like it" in why, "beside nine columns of figures it would have no room"
    assert "abcdef12" in page and "too few requests like it" in page and "No engine was asked" in page
    assert (await viewer.get(LOG_REPORT.path + ".json")).json["report"]["total"]["exact"] == 1


@pytest.mark.parametrize("broken", ["", "[]", "{", '{"version": 99}'])
async def test_a_report_that_cannot_be_read_is_as_good_as_none(pages: Site, broken: str) -> None:
    (pages.sources.store.folder / REPORT).write_text(broken)
    assert log_report(pages.sources, Asked(Viewer("ann", Role.VIEWER), 0.0)) == {"report": None}
