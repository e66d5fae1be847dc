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


async def test_rows_are_found_by_target_outcome_and_time_and_show_old_and_new_values(pages: Site) -> None:
    operator = await pages.person("operator")
    log = pages.sources.store.audit
    changed = {"limits": {"old": {}, "new": {"concurrency": 2}}}
    for at_s, who, action, target, outcome in (
        (1_700_000_000.0, "root", "keys/edit", "key_1", "done"),
        (1_700_003_600.0, "ann", "/engines/drain", "large", "failed"),
        (1_700_007_200.0, "ann", "tenants/delete", "acme", "done"),
    ):
        log.note(AuditRecord(at_s, who, action, target, outcome, "command line", changed)).result(60)  # type: ignore[arg-type]

    async def found(query: str) -> list[str]:
        return [row["target"] for row in (await operator.get(f"/audit.json?{query}")).json["rows"]]

    assert await found("action=keys") == ["key_1"] and await found("action=delete") == ["acme"]
    assert await found("target=lar") == ["large"] and await found("outcome=failed") == ["large"]
    assert await found("from=2023-11-14T22:30&to=2023-11-14T23:30") == ["large"], "in the pages' time zone"
    assert await found("user=root") == ["key_1"]
    assert (await operator.get("/audit?outcome=won")).status == 400
    page = (await operator.get("/audit?target=key_1")).text
    assert "limits: none → {&#39;concurrency&#39;: 2}" in page and "command line" in page
    assert "'concurrency" not in (await operator.get("/audit.csv")).text.splitlines()[0]


async def test_viewers_are_not_offered_what_they_may_not_open(pages: Site) -> None:
    for role in ("viewer", "viewer-content"):
        person = await pages.person(role)
        page = (await person.get("/overview")).text
        assert 'href="/audit"' not in page and 'href="/accounts"' not in page
        assert (await person.get("/audit")).status == 403
    page = (await (await pages.person("operator")).get("/overview")).text
    assert 'href="/audit"' in page and 'href="/accounts"' in page
