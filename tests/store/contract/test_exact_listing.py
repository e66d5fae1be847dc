"""Stored answers are listed and counted as they are, and exactly those are deleted that were meant, from every process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from store import Store
from store.answers.exact_cache import Put
from store.answers.exact_listing import Purge, Purged
from store.records import Example
from tests.store.contract.conftest import Opening
from tests.store.rows import answer, new_example, request_record

SETTINGS = {"exact_ttl_s": 1e9, "exact_memory_bytes": 100_000}


@pytest.fixture
def store(open_store: Opening) -> Store:
    return open_store(**SETTINGS)


def fill(store: Store) -> None:
    """Four answers: two of tenant a1 by keys, one of it by no key, one of b2."""
    for number, (tenant, contributor) in enumerate(
        (("a1", "key_1/u"), ("a1", "key_10/"), ("a1", None), ("b2", "key_1/"))
    ):
        store.answers.exact.put(
            b"k%d" % number,
            tenant,
            answer(stored_at_s=1000.0 + number),
            request_id=f"req-{number}",
            contributor=contributor,
        ).result(30)


def requests(store: Store) -> list[str]:
    return [entry.request_id for entry in store.answers.listing.page()]


def test_entries_are_listed_in_each_order_with_their_hits(store: Store) -> None:
    fill(store)
    for _ in range(3):
        assert store.answers.exact.get(b"k1", 1010.0) is not None
    flushed = store.answers.exact.flush_uses()
    assert flushed is not None
    flushed.result(30)
    listing = store.answers.listing
    assert requests(store) == ["req-3", "req-2", "req-1", "req-0"]
    assert [entry.request_id for entry in listing.page(sort="oldest", skip=1, limit=2)] == ["req-1", "req-2"]
    (hit,) = listing.page(sort="hits")
    assert (hit.request_id, hit.hits, hit.last_used_at_s, hit.corrected) == ("req-1", 3, 1010.0, False)
    assert [entry.tenant for entry in listing.page(tenant="b2")] == ["b2"]
    totals = listing.totals()
    assert (totals.entries, totals.hits, totals.oldest_at_s, totals.similar) == (4, 3, 1000.0, 0)
    assert totals.size_bytes == sum(entry.size_bytes for entry in listing.page())
    assert listing.tenants() == {"a1": 3, "b2": 1}


def test_an_answer_that_replaces_another_was_not_given_again_yet(store: Store) -> None:
    fill(store)
    store.answers.exact.get(b"k1", 1010.0)
    flushed = store.answers.exact.flush_uses()
    assert flushed is not None
    flushed.result(30)
    store.answers.exact.put(b"k1", "a1", answer(stored_at_s=1020.0), request_id="req-9").result(30)
    assert store.answers.listing.page()[0].hits == 0


@pytest.mark.parametrize(
    ("which", "gone"),
    [
        (Purge(request_id="req-1"), ["req-1"]),
        (Purge(tenant="a1", key_id="key_1"), ["req-0"]),
        (Purge(tenant="a1"), ["req-0", "req-1", "req-2"]),
        (Purge(), ["req-0", "req-1", "req-2", "req-3"]),
        (Purge(request_id="unknown"), []),
    ],
    ids=str,
)
def test_a_purge_deletes_what_it_counted_and_nothing_else(
    store: Store,
    open_store: Opening,
    holds: Callable[[Callable[[], object]], bool],
    which: Purge,
    gone: list[str],
) -> None:
    fill(store)
    other = open_store(**SETTINGS)
    for number in range(4):
        assert other.answers.exact.get(b"k%d" % number, 1010.0) is not None
    listing = store.answers.listing
    assert listing.count(which) == Purged(len(gone), 0)
    assert listing.purge(which).result(30) == Purged(len(gone), 0)
    assert set(requests(store)) == {f"req-{number}" for number in range(4)} - set(gone)
    for number in range(4):
        is_gone = f"req-{number}" in gone
        assert holds(
            lambda number=number, is_gone=is_gone: (
                (other.answers.exact.get(b"k%d" % number, 1010.0) is None) == is_gone
            )
        )


def test_one_entry_is_deleted_alone(store: Store) -> None:
    fill(store)
    entry = store.answers.listing.page()[1]
    assert store.answers.listing.count(Purge(entry=entry.id)) == Purged(1, 0)
    store.answers.listing.purge(Purge(entry=entry.id)).result(30)
    assert requests(store) == ["req-3", "req-1", "req-0"]


def kept(store: Store) -> Example:
    return store.examples.add(new_example(7, request_id="demo-1")).result(30)


def test_a_corrected_answer_is_given_from_every_process_and_replaced_by_none(
    store: Store, open_store: Opening, holds: Callable[[Callable[[], object]], bool]
) -> None:
    fill(store)
    other = open_store(**SETTINGS)
    assert other.answers.exact.get(b"k0", 1010.0) is not None
    right = answer(b'{"answer": 27}', stored_at_s=1005.0)
    example = kept(store)
    done = store.answers.exact.correct(
        b"k0", "a1", right, request_id="req-0", example=example, contributor="key_1/u"
    )
    assert done.result(30) is True

    def given() -> bool:
        found = other.answers.exact.get(b"k0", 1010.0)
        return found is not None and found.body == right.body

    assert holds(given)
    # An engine's answer to a request that was under way meanwhile.
    late = other.answers.exact.put(b"k0", "a1", answer(stored_at_s=1006.0), request_id="req-7")
    assert late.result(30) is False
    assert holds(given)
    together = [Put(key, "a1", answer(stored_at_s=1006.0), "req-8", "") for key in (b"k0", b"k9")]
    other.answers.exact.put_all(together).result(30)
    assert other.answers.exact.get(b"k9", 1010.0) is not None
    assert holds(given) and store.answers.listing.is_corrected(b"k0")
    assert not store.answers.listing.is_corrected(b"k1")


def test_a_corrected_answer_goes_with_its_example(store: Store) -> None:
    store.decisions.requests.record(request_record(0, exact_key=b"k0")).result(30)
    example = kept(store)
    for change in (
        lambda: store.examples.hold_back("a1", example.id),
        lambda: store.examples.remove("a1", [example.id]),
    ):
        fresh = store.examples.let_go("a1", example.id).result(30)
        assert fresh is not None
        store.answers.exact.correct(
            b"k0", "a1", answer(), request_id="req-0", example=fresh, contributor=None
        ).result(30)
        assert store.answers.exact.get(b"k0", 1001.0) is not None
        change().result(30)
        assert store.answers.exact.get(b"k0", 1001.0) is None
    refused = store.answers.exact.correct(
        b"k0", "a1", answer(), request_id="req-0", example=example, contributor=None
    )
    assert refused.result(30) is False, "the example is gone"
