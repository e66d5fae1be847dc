"""Every filter finds its requests and no others, pages join without a gap, and no page looks through the whole log."""

from __future__ import annotations

import pytest

from store.decisions.search import Place, Wanted, page_query
from store.sqlite.database import Database


@pytest.mark.parametrize(
    "wanted", [Wanted(), Wanted(engine="x", way="failed"), Wanted(tenant="a1", status=5)]
)
def test_no_page_sorts_or_scans_the_log(db: Database, wanted: Wanted) -> None:
    query, values = page_query(wanted, limit=50, looked=1000, before=Place(1.0, 2))
    plan = [row[3] for row in db.read().execute("EXPLAIN QUERY PLAN " + query, values).fetchall()]
    assert any("USING INDEX requests_by_" in step for step in plan), plan
    assert not any("TEMP B-TREE" in step or step == "SCAN requests" for step in plan), plan
