"""Rebuilding goes on beside everything else: nothing stands still for it, and nothing is lost by it."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from structlog.testing import capture_logs

from store.examples.tenant_index import TenantIndex
from store.examples.vector_index import Rebuilder
from tests.store.behind import rebuilt_all
from tests.store.rows import unit_vector


def filled(count: int, dimensions: int = 16) -> TenantIndex:
    index = TenantIndex(dimensions)
    for id in range(count):
        index.add(id, unit_vector(id, dimensions))
    return index


def test_what_came_and_went_during_a_rebuild_is_neither_lost_nor_back() -> None:
    index = filled(1500)
    for id in range(500):
        index.remove(id)
    moved, added, removed = range(500, 560), range(5000, 5200), range(560, 700)
    at = iter(range(10_000))

    def amid() -> bool:
        if next(at) == 1:
            for id in moved:
                index.add(id, unit_vector(id + 20_000, 16))
            for id in added:
                index.add(id, unit_vector(id, 16))
            for id in removed:
                index.remove(id)
            index.add(700, unit_vector(700, 16))
            index.remove(700)
        return False

    assert index.rebuild(amid)
    assert len(index) == 1000 - len(removed) - 1 + len(added)
    found = {id: index.nearest(unit_vector(id, 16), 1)[0] for id in [*range(701, 1500), *added]}
    assert all(id == nearest and similarity > 0.99 for id, (nearest, similarity) in found.items())
    assert [index.nearest(unit_vector(id + 20_000, 16), 1)[0][0] for id in moved] == list(moved)
    everything = {id for number in range(300) for id, _ in index.nearest(unit_vector(number, 16), 50)}
    assert not everything & {*range(500), *removed, 700}


def test_searches_and_adds_go_on_while_a_rebuild_is_at_work() -> None:
    index, rebuilder = filled(3000), Rebuilder()
    for id in range(1000):
        index.remove(id)
    rebuilder.ask(index)
    rebuilder.ask(index)
    for id in range(10_000, 10_100):
        index.add(id, unit_vector(id, 16))
        assert index.nearest(unit_vector(id, 16), 1)[0][0] == id
    rebuilt_all(rebuilder)
    assert index.tombstones <= 100
    assert len(index) == 2100
    assert {index.nearest(unit_vector(id, 16), 1)[0][0] for id in range(10_000, 10_100)} == set(
        range(10_000, 10_100)
    )
    assert rebuilder.rebuilt in (1, 2)
    assert rebuilder.stop()


def test_a_rebuild_that_is_stopped_leaves_the_graph_as_it_was() -> None:
    index = filled(1000)
    for id in range(400):
        index.remove(id, erase=id == 3)
    before = [index.nearest(unit_vector(id, 16), 5) for id in range(50)]
    assert index.rebuild(lambda: True) is False
    assert index.tombstones == 400
    assert index.tainted
    assert [index.nearest(unit_vector(id, 16), 5) for id in range(50)] == before


def test_an_error_in_one_rebuild_does_not_end_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(threading.enumerate())
    broken, whole, rebuilder = filled(10), filled(300), Rebuilder()
    for index in (broken, whole):
        index.remove(1)

    def fail(*_: object) -> bool:
        raise MemoryError("no room for a second graph")

    monkeypatch.setattr(broken, "rebuild", fail)
    with capture_logs() as told:
        rebuilder.ask(broken)
        rebuilder.ask(whole)
        rebuilt_all(rebuilder)
    assert (rebuilder.rebuilt, whole.tombstones) == (1, 0)
    (line,) = [line for line in told if line["event"] == "index_rebuild_failed"]
    assert "no room for a second graph" in str(line["error"])
    assert rebuilder.stop()
    rebuilder.ask(whole)
    assert "index-rebuilder" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_an_erased_vector_is_in_the_bytes_until_the_rebuild_and_not_after_it() -> None:
    index = TenantIndex(16)
    for id in range(200):
        index.add(id, unit_vector(id, 16))
    alone = TenantIndex(16)
    alone.add(0, unit_vector(77, 16))
    mark = _vector_bytes(alone, unit_vector(77, 16))
    index.remove(77, erase=True)
    assert index.tainted and index.worn
    assert mark in bytes(index.to_bytes())
    assert index.rebuild_if_worn()
    assert not index.tainted
    assert mark not in bytes(index.to_bytes())


def test_a_vector_erased_during_a_rebuild_is_not_forgotten_by_it() -> None:
    index = filled(1000)
    for id in range(300):
        index.remove(id)
    at = iter(range(100))

    def amid() -> bool:
        if next(at) == 3:
            index.remove(301, erase=True)
        return False

    assert index.rebuild(amid)
    assert index.tainted or index.tombstones == 0
    assert index.rebuild()
    assert not index.tainted


def _vector_bytes(alone: TenantIndex, vector: object) -> bytes:
    """How bfloat16 keeps it: the upper half of each float32, rounded."""
    wanted = np.asarray(vector, np.float32).view(np.uint32)
    rounded = ((wanted + 0x7FFF + ((wanted >> 16) & 1)) >> 16).astype("<u2").tobytes()
    assert rounded in bytes(alone.to_bytes())
    return rounded
