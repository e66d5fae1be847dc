"""However long the log is, no page reads all of it: every statement of every page goes by an index, or by sums."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from admin.pages import PAGES
from store.sqlite import database
from tests.admin.runs_kept import DOC_QA, map_reduce, of_workflow
from tests.admin.site import Site, site
from tests.store.rows import request_record

LONG = "requests|choices|outcomes|examples|example_accounts|request_texts|feedback|audit_log|exact_answers"
LONG += "|workflow_runs|workflow_steps|variables|collection_texts"
UNBOUNDED = re.compile(rf"^SCAN ({LONG})(?: AS \w+)?$")
"""A scan by an index is a page's order, and ends with its LIMIT; one without reads everything there is."""
QUERIES = {
    "/overview": ("?span=hour", "?span=day", "?span=week", "?tenant=a1"),
    "/engines": ("?span=hour", "?span=week"),
    "/requests": (
        "",
        "?engine=small",
        "?way=failed",
        "?tenant=a1&status=5",
        "?q=question",
        "?example=1",
        "?within=week",
        "?session=n1",
        "?session=n1&tenant=a1&engine=small",
        "?user=" + "a" * 24,
        "?after=t-1.0-1",
    ),
    "/sessions": ("", "?tenant=a1&least=2", "?before=1000"),
    "/find": ("?q=req-1", "?q=chatcmpl-1", "?q=somebody", "?q=7"),
    "/workflows/doc-qa": ("",),
    "/runs": (
        "?workflow=doc-qa",
        "?state=failed",
        "?tenant=t1",
        "?app=papers",
        "?state=done&app=papers&tenant=t1",
    ),
    "/examples": ("?tenant=a1", "?sort=oldest", "?sort=gain", "?sort=uses", "?which=pinned", "?q=question"),
    "/examples-map": ("?colour=gain",),
    "/cache": ("?sort=hits", "?sort=oldest&tenant=a1"),
    "/router": ("?span=week",),
    "/trends": ("?span=hour", "?span=month", "?tenant=a1", "?model=demo"),
    "/cost": ("?span=quarter", "?by=tenant", "?tenant=a1&by=model-engine"),
    "/tenants": ("?span=month",),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that is read with from now on."""
    statements: list[str] = []
    opening = database._open_to_read

    def traced(path: Path) -> sqlite3.Connection:
        connection = opening(path)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(database, "_open_to_read", traced)
    return statements


@pytest.fixture
async def pages(tmp_path: Path, asked: list[str]) -> AsyncIterator[Site]:
    async with site(tmp_path, workflows={"doc-qa": DOC_QA}) as made:
        for i in range(200):
            record = request_record(i, model="demo", started_at_s=time.time() - i * 60)
            made.sources.store.decisions.requests.record(record)
        assert made.sources.store.drain(10)
        yield made


async def test_no_page_reads_a_whole_log(pages: Site, asked: list[str], tmp_path: Path) -> None:
    operator = await pages.person("operator")
    paths = [page.path for page in PAGES if "{" not in page.path]
    paths += [path + query for path, queries in QUERIES.items() for query in queries]
    map_reduce(pages.sources.store, "run_1", time.time())
    of_workflow(pages.sources.store, "run_2", time.time())
    paths += ["/requests/req-1", "/runs/run_1", "/runs/run_2"]
    connection = sqlite3.connect(tmp_path / "understudy.db")
    found: set[str] = set()
    seen = 0
    for path in paths:
        asked.clear()
        assert (await operator.get(path)).status in (200, 303), path
        # What runs beside the pages adds up the log; a page reads the sums.
        seen += len(asked)
        for statement in {one for one in asked if one.lstrip().upper().startswith(("SELECT", "WITH"))}:
            for row in connection.execute("EXPLAIN QUERY PLAN " + statement).fetchall():
                if UNBOUNDED.match(row[3]):
                    found.add(f"{path}: {row[3]}: {statement[:200]}")
    connection.close()
    assert seen > 100, "the pages' own connections must have been listened to"
    assert not found, "\n".join(sorted(found))
