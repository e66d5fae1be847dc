"""The audit log: in order, filtered, a page at a time."""

from __future__ import annotations

from store import Store
from store.people.audit import AuditRecord


def test_rows_come_newest_first_by_page_and_filter_and_old_ones_go(store: Store) -> None:
    log = store.audit
    for i in range(6):
        user = "ann" if i % 2 else "bob"
        log.note(AuditRecord(float(i), user, "do", f"t{i}", "done", "127.0.0.1", {"n": i})).result(30)
    log.note(AuditRecord(9.0, "ann", "long", "x" * 900, "failed", "", {"why": "y" * 9000})).result(30)
    newest = log.page(limit=1)[0]
    assert len(newest.target) == 200 and "cut" in newest.detail
    first = log.page(limit=3, action="do")
    assert [row.target for row in first] == ["t5", "t4", "t3"]
    assert [row.target for row in log.page(before_id=first[-1].id, action="do")] == ["t2", "t1", "t0"]
    assert [row.detail for row in log.page(user="bob")] == [{"n": 4}, {"n": 2}, {"n": 0}]
    assert log.trim(5.0).result(30) == 5
    assert [row.target[:2] for row in log.page()] == ["xx", "t5"]
