"""Orders are right page by page, likeness is exact, and nothing reads a whole bank to show a page of it."""

from __future__ import annotations

import math

from store import Store
from store.examples.search import FoundExamples
from tests.store.rows import new_example, unit_vector


def ids(found: FoundExamples) -> list[int]:
    return [example.id for example in found.rows]


def fill(store: Store, count: int, **changes: object) -> list[int]:
    bank = store.examples
    return [bank.add(new_example(number, **changes)).result(30).id for number in range(count)]


def test_pages_join_in_every_order(store: Store) -> None:
    made = fill(store, 7)
    search = store.examples.search
    for sort, wanted in (("newest", made[::-1]), ("oldest", made)):
        first = search.page("a1", sort=sort, limit=4)  # type: ignore[arg-type]
        assert first.next == 4
        assert ids(first) + ids(search.page("a1", sort=sort, skip=4, limit=4)) == wanted  # type: ignore[arg-type]
    assert ids(search.page("b2")) == []


def test_the_nearest_are_exactly_those_and_only_the_tenants_own(store: Store) -> None:
    made = fill(store, 40)
    store.examples.add(new_example(7, "b2")).result(30)
    asked = unit_vector(7)
    by_hand = sorted(range(40), key=lambda n: -float(unit_vector(n) @ asked))
    found = store.examples.search.nearest("a1", asked, "v1", limit=5)
    assert ids(found) == [made[n] for n in by_hand[:5]]
    assert math.isclose(found.similarities[0], 1.0, abs_tol=1e-3)
    assert ids(store.examples.search.nearest("a1", asked, "v2", limit=5)) == []


def test_what_an_example_is_narrows_every_search(store: Store) -> None:
    made = fill(store, 5, question="about whales")
    bank, search = store.examples, store.examples.search
    bank.update("a1", made[3], pinned=True).result(30)
    assert ids(search.page("a1", which="pinned")) == [made[3]]
    assert ids(search.with_words("a1", "whales", which="pinned")) == [made[3]]
    assert ids(search.nearest("a1", unit_vector(0), "v1", which="pinned")) == [made[3]]
    assert ids(search.with_words("b2", "whales")) == []


def test_an_examples_vector_and_tenant_are_known_by_its_id(store: Store) -> None:
    (made,) = fill(store, 1)
    search = store.examples.search
    known = search.vector(made)
    assert known is not None and known[1] == "v1" and float(known[0] @ unit_vector(0)) > 0.999
    assert (
        store.examples.tenant_of(made) == "a1"
        and store.examples.tenant_of(10**6) is None
        and search.vector(10**6) is None
    )
