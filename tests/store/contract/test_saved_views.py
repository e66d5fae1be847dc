"""Saved views: one of each name, and not more than there is room for."""

from __future__ import annotations

import pytest

from store import Store
from store.people.saved_views import MOST_VIEWS, SavedView


def test_a_view_takes_the_place_of_the_one_of_its_name(store: Store) -> None:
    views = store.saved_views
    first, second = SavedView("b", "way=failed", 1.0, "ann"), SavedView("b", "status=5", 2.0, "ben")
    assert views.put(first) is None and views.put(second) == first
    other = SavedView("a", "cost=1", 3.0, "ann")
    assert views.put(other) is None and views.list() == [other, second]
    assert views.remove("b") and not views.remove("b") and views.list() == [other]


def test_there_is_room_for_so_many(store: Store) -> None:
    for number in range(MOST_VIEWS):
        store.saved_views.put(SavedView(f"view {number}", "way=failed", 1.0, "ann"))
    with pytest.raises(ValueError, match="delete one first"):
        store.saved_views.put(SavedView("one more", "way=failed", 1.0, "ann"))
    assert store.saved_views.put(SavedView("view 3", "way=hit", 1.0, "ann")) is not None
    with pytest.raises(ValueError, match="printable"):
        store.saved_views.put(SavedView("two\nlines", "way=failed", 1.0, "ann"))
