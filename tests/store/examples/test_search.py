"""Orders are right page by page, likeness is exact, and nothing reads a whole bank to show a page of it."""

from __future__ import annotations

import pytest

from store.examples.bank import ExampleBank
from store.examples.search import ExampleSearch, FoundExamples, Sort, page_query
from store.sqlite.database import Database
from tests.store.rows import new_example


def ids(found: FoundExamples) -> list[int]:
    return [example.id for example in found.rows]


def fill(db: Database, count: int, **changes: object) -> list[int]:
    bank = ExampleBank(db)
    return [bank.add(new_example(number, **changes)).result(30).id for number in range(count)]


def test_gain_is_compared_as_of_now_and_not_as_of_its_last_use(db: Database) -> None:
    made = fill(db, 3)
    now_s, hour = 2_000_000_000.0, 3600.0
    for id, gain, at_s in ((made[0], 1.0, now_s - 30 * hour), (made[1], 0.5, now_s), (made[2], 0.0, now_s)):
        db.write(
            lambda c, row=(gain, at_s, id): c.execute(  # type: ignore[misc]
                "UPDATE example_accounts SET gain = ?, gain_at_s = ? WHERE id = ?", row
            )
        ).result(30)
    assert 0.9**30 < 0.5
    assert ids(ExampleSearch(db).page("a1", sort="gain")) == [made[1], made[0]]


@pytest.mark.parametrize("sort", ["uses", "newest", "oldest"])
def test_a_page_walks_an_index_and_sorts_only_itself(db: Database, sort: Sort) -> None:
    query, values = page_query("a1", sort=sort, which="pinned", skip=0, limit=50)
    plan = [row[3] for row in db.read().execute("EXPLAIN QUERY PLAN " + query, values).fetchall()]
    assert any("SEARCH example_accounts USING INDEX accounts_by_" in step for step in plan), plan
    inner = plan[: plan.index("SCAN f")]
    assert not any("TEMP B-TREE" in step for step in inner), plan
