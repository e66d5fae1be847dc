"""The audit page: filtered, a page at a time, its texts harmless."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from admin.summaries import audit
from store.people.audit import AuditRecord
from tests.admin.site import Site, site


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


async def test_rows_come_a_page_at_a_time_and_by_filter(pages: Site) -> None:
    operator = await pages.person("operator")
    log, now_s = pages.sources.store.audit, time.time()
    for i in range(audit._ROWS + 5):
        log.note(AuditRecord(now_s, "ann", "do", f"<b>t{i}</b>", "done", "127.0.0.1", {"n": i}))
    log.note(AuditRecord(now_s, "bob", "do", "other", "failed", "::1", {})).result(60)
    first = (await operator.get("/audit.json?user=ann")).json
    assert len(first["rows"]) == audit._ROWS and first["older"] == first["rows"][-1]["id"]
    rest = (await operator.get(f"/audit.json?user=ann&before={first['older']}")).json
    assert [row["target"] for row in rest["rows"]] == [f"<b>t{i}</b>" for i in range(4, -1, -1)]
    assert rest["older"] is None
    page = (await operator.get("/audit?user=ann")).text
    assert "<b>t" not in page and "&lt;b&gt;t" in page
