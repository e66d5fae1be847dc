"""Every filter finds its requests and no others, pages join without a gap, and no page looks through the whole log."""

from __future__ import annotations

from typing import Any

import pytest

from store import Store
from store.decisions.search import Found, Place, Wanted
from tests.store.decisions.test_texts import texts
from tests.store.rows import request_record


def fill(store: Store, *changes: dict[str, Any]) -> None:
    log = store.decisions.requests
    for number, change in enumerate(changes):
        log.record(request_record(number, **change)).result(30)


def ids(found: Found) -> list[str]:
    return [row.id for row in found.rows]


@pytest.mark.parametrize(
    ("wanted", "odd"),
    [
        ({"tenant": "b2"}, {"tenant": "b2"}),
        ({"key_id": "key_7"}, {"key_id": "key_7"}),
        ({"model": "other"}, {"model": "other"}),
        ({"engine": "large"}, {"engine": "large"}),
        ({"way": "exact"}, {"outcome": "hit", "policy": "exact"}),
        ({"way": "semantic"}, {"outcome": "hit", "policy": "semantic"}),
        ({"way": "hit"}, {"outcome": "hit", "policy": "semantic"}),
        ({"way": "direct"}, {"example_ids": ()}),
        ({"way": "offloaded", "references": (("gpt-4o", "small"),)}, {"engine": "tiny"}),
        ({"way": "reference", "references": (("gpt-4o", "large"),)}, {"engine": "large"}),
        ({"way": "reference", "references": (("gpt-4o", "large"),)}, {"model": "not-served"}),
        ({"way": "failed"}, {"outcome": "upstream_error"}),
        ({"status": 503}, {"status": 503}),
        ({"status": 5}, {"status": 503}),
        ({"reason": "novel"}, {"reason": "novel"}),
        ({"since_s": 1001.5, "until_s": 1002.5}, {"started_at_s": 1002.0}),
        ({"least_usd": 2.0}, {"cost_usd": 2.5}),
        ({"example": 17}, {"example_ids": (1, 17)}),
    ],
)
def test_a_filter_finds_what_it_names_and_nothing_else(
    store: Store, wanted: dict[str, Any], odd: dict[str, Any]
) -> None:
    fill(store, {"started_at_s": 900.0}, {"started_at_s": 901.0}, odd, {"started_at_s": 903.0})
    assert ids(store.decisions.search.page(Wanted(**wanted), limit=10)) == ["req-2"]


def test_pages_join_without_gap_or_repetition_also_where_times_are_equal(store: Store) -> None:
    fill(store, *({"started_at_s": 1000.0 + number // 4} for number in range(23)))
    search, seen, before = store.decisions.search, [], None
    while True:
        found = search.page(Wanted(), limit=5, before=before)
        seen += ids(found)
        if found.next is None:
            break
        assert isinstance(found.next, Place)
        before = found.next
    assert seen == [f"req-{number}" for number in reversed(range(23))]


def test_pages_lead_back_to_newer_ones_and_each_request_to_its_neighbours(store: Store) -> None:
    fill(store, *({"started_at_s": 1000.0 + number // 4} for number in range(12)))
    search = store.decisions.search
    last = search.page(Wanted(), limit=5, before=search.page(Wanted(), limit=5).next)  # type: ignore[arg-type]
    assert ids(last) == [f"req-{number}" for number in (6, 5, 4, 3, 2)] and last.first is not None
    newer, place = search.newer(Wanted(), limit=5, after=last.first)
    assert [row.id for row in newer] == [f"req-{number}" for number in (11, 10, 9, 8, 7)]
    assert place is not None and search.newer(Wanted(), limit=5, after=place) == ((), None)
    assert search.beside(Wanted(), "req-4") == ("req-3", "req-5")
    assert search.beside(Wanted(), "req-0") == (None, "req-1")
    assert search.beside(Wanted(engine="rare"), "req-4") == search.beside(Wanted(), "none") == (None, None)


def test_a_rare_one_is_looked_for_a_bounded_way_back_and_then_further(store: Store) -> None:
    fill(store, {"engine": "rare"}, *({} for _ in range(30)))
    search = store.decisions.search
    first = search.page(Wanted(engine="rare"), limit=5, looked_through=20)
    assert ids(first) == [] and first.looked_back_to_s == 1011.0 and isinstance(first.next, Place)
    second = search.page(Wanted(engine="rare"), limit=5, looked_through=20, before=first.next)
    assert ids(second) == ["req-0"] and second.next is None


def test_words_and_filters_are_met_together_page_by_page(store: Store) -> None:
    fill(store, {}, {"engine": "large"}, {}, {})
    log = store.decisions.texts
    for number in range(4):
        log.keep(texts(number)).result(30)
    search = store.decisions.search
    first = search.with_words(Wanted(engine="small"), "legs ", limit=2)
    assert ids(first) == ["req-3", "req-2"] and isinstance(first.next, int)
    assert ids(search.with_words(Wanted(engine="small"), "legs ", limit=2, before=first.next)) == ["req-0"]
    assert ids(search.with_words(Wanted(since_s=1002.5), "legs ", limit=9)) == ["req-3"]
    assert ids(search.with_words(Wanted(), "wings", limit=2)) == []


def test_tenants_are_listed_once_each(store: Store) -> None:
    assert store.decisions.search.tenants() == []
    fill(store, {}, {"tenant": "b2"}, {}, {"tenant": "c3"})
    assert store.decisions.search.tenants() == ["a1", "b2", "c3"]


def test_repeats_are_found_by_the_words_of_what_they_repeat(store: Store) -> None:
    first = {"exact_key": b"s", "completion_id": "chatcmpl-1"}
    again = {**first, "outcome": "hit", "policy": "exact", "no_text": "of_key"}
    fill(store, first, again, again, {})
    store.decisions.texts.keep(texts(0, same=b"s"), texts(3, same=b"t")).result(30)
    search, words = store.decisions.search, "legs"
    assert ids(search.with_words(Wanted(), words, limit=10)) == ["req-3", "req-0", "req-2", "req-1"]
    assert ids(search.with_words(Wanted(way="exact"), words, limit=10)) == ["req-2", "req-1"]
    first = search.with_words(Wanted(), words, limit=2)
    assert ids(first) == ["req-3"] and isinstance(first.next, int)
    assert ids(search.with_words(Wanted(), words, limit=2, before=first.next)) == ["req-0", "req-2"]
