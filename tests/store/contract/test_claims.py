"""Of texts that wait to be embedded each is claimed by one process at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from store import Store
from store.jobs.claims import EmbeddingClaims
from store.records import NewExample
from tests.store.contract.conftest import Opening


def filled(store: Store, count: int) -> list[int]:
    for i in range(count):
        new = NewExample("t", "s", f"q{i}", "a", f"text {i}", None, "v1", "large", f"r{i}")
        store.examples.add(new).result(30)
    return [row.id for row in store.examples.without_vector("v1", count)]


def test_each_is_claimed_once_until_the_claim_ends_or_is_let_go(open_store: Opening) -> None:
    one, other = open_store(), open_store()
    ids = filled(one, 6)
    mine: EmbeddingClaims = one.jobs.claims
    assert mine.take("question", ids[:4]) == set(ids[:4])
    assert other.jobs.claims.take("question", ids) == set(ids[4:])
    assert other.jobs.claims.take("answer", ids) == set(ids), "of the answer, that is another one"
    mine.let_go("question", ids[:2])
    assert other.jobs.claims.take("question", ids, for_s=-1.0) == set(ids[:2])
    assert mine.take("question", ids) == set(ids[:2]), "its claim ran out"
    assert one.examples.remove_tenant("t").result(30) == 6
    assert mine.take("question", ids) == set(), "they are gone"


def test_of_several_that_claim_at_once_none_gets_what_another_has(open_store: Opening) -> None:
    stores = [open_store() for _ in range(3)]
    ids = filled(stores[0], 30)
    with ThreadPoolExecutor(3) as threads:
        taken = list(threads.map(lambda store: store.jobs.claims.take("question", ids), stores))
    assert sum(map(len, taken)) == len(set().union(*taken)), "each at most once"
