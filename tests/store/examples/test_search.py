"""Orders are right page by page, likeness is exact, and nothing reads a whole bank to show a page of it."""

from __future__ import annotations

import math

import pytest

from store.examples.bank import ExampleBank
from store.examples.search import ExampleSearch, FoundExamples, Sort, page_query
from store.sqlite.database import Database
from tests.store.rows import new_example, unit_vector


def ids(found: FoundExamples) -> list[int]:
    return [example.id for example in found.rows]


def fill(db: Database, count: int, **changes: object) -> list[int]:
    bank = ExampleBank(db)
    return [bank.add(new_example(number, **changes)).result(30).id for number in range(count)]


def test_pages_join_in_every_order(db: Database) -> None:
    made = fill(db, 7)
    search = ExampleSearch(db)
    for sort, wanted in (("newest", made[::-1]), ("oldest", made)):
        first = search.page("a1", sort=sort, limit=4)  # type: ignore[arg-type]
        assert first.next == 4
        assert ids(first) + ids(search.page("a1", sort=sort, skip=4, limit=4)) == wanted  # type: ignore[arg-type]
    assert ids(search.page("b2")) == []


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


def test_the_nearest_are_exactly_those_and_only_the_tenants_own(db: Database) -> None:
    made = fill(db, 40)
    ExampleBank(db).add(new_example(7, "b2")).result(30)
    asked = unit_vector(7)
    by_hand = sorted(range(40), key=lambda n: -float(unit_vector(n) @ asked))
    found = ExampleSearch(db).nearest("a1", asked, "v1", limit=5)
    assert ids(found) == [made[n] for n in by_hand[:5]]
    assert math.isclose(found.similarities[0], 1.0, abs_tol=1e-3)
    assert ids(ExampleSearch(db).nearest("a1", asked, "v2", limit=5)) == []


def test_what_an_example_is_narrows_every_search(db: Database) -> None:
    made = fill(db, 5, question="about whales")
    bank, search = ExampleBank(db), ExampleSearch(db)
    bank.update("a1", made[3], pinned=True).result(30)
    assert ids(search.page("a1", which="pinned")) == [made[3]]
    assert ids(search.with_words("a1", "whales", which="pinned")) == [made[3]]
    assert ids(search.nearest("a1", unit_vector(0), "v1", which="pinned")) == [made[3]]
    assert ids(search.with_words("b2", "whales")) == []


@pytest.mark.parametrize("sort", ["uses", "newest", "oldest"])
def test_a_page_walks_an_index_and_sorts_only_itself(db: Database, sort: Sort) -> None:
    query, values = page_query("a1", sort=sort, which="pinned", skip=0, limit=50)
    plan = [row[3] for row in db.read().execute("EXPLAIN QUERY PLAN " + query, values).fetchall()]
    assert any("SEARCH example_accounts USING INDEX accounts_by_" in step for step in plan), plan
    inner = plan[: plan.index("SCAN f")]
    assert not any("TEMP B-TREE" in step for step in inner), plan


def test_an_examples_vector_and_tenant_are_known_by_its_id(db: Database) -> None:
    (made,) = fill(db, 1)
    search = ExampleSearch(db)
    known = search.vector(made)
    assert known is not None and known[1] == "v1" and float(known[0] @ unit_vector(0)) > 0.999
    assert (
        ExampleBank(db).tenant_of(made) == "a1"
        and ExampleBank(db).tenant_of(10**6) is None
        and search.vector(10**6) is None
    )
