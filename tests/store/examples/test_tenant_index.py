from __future__ import annotations

import random
import subprocess
import sys
import threading

import numpy as np
import pytest

from store.examples.tenant_index import TenantIndex, expansion_search
from tests.store.rows import unit_vector


def filled(count: int, dimensions: int = 8) -> TenantIndex:
    index = TenantIndex(dimensions)
    for id in range(count):
        index.add(id, unit_vector(id, dimensions))
    return index


def test_the_nearest_come_first_with_their_cosine() -> None:
    index = filled(200, 32)
    query = unit_vector(1000, 32)
    exact = sorted(((float(unit_vector(id, 32) @ query), id) for id in range(200)), reverse=True)[:10]
    found = index.nearest(query, 10)
    assert len({id for id, _ in found} & {id for _, id in exact}) >= 9
    assert [similarity for _, similarity in found] == sorted((s for _, s in found), reverse=True)
    for id, similarity in found:
        assert similarity == pytest.approx(float(unit_vector(id, 32) @ query), abs=0.005)


def test_an_empty_index_answers_nothing_and_a_small_one_all_it_has() -> None:
    assert TenantIndex(8).nearest(unit_vector(1), 5) == []
    assert len(filled(3).nearest(unit_vector(1), 50)) == 3


def test_adding_an_id_again_moves_it() -> None:
    index = filled(20)
    index.add(3, unit_vector(777))
    assert len(index) == 20
    assert index.nearest(unit_vector(777), 1)[0][0] == 3
    assert index.nearest(unit_vector(3), 1)[0][1] < 0.999


def test_what_was_removed_is_never_found() -> None:
    index = filled(100)
    for id in range(0, 100, 2):
        index.remove(id)
    index.remove(12345)
    for id in range(100):
        assert all(found % 2 for found, _ in index.nearest(unit_vector(id), 10))


def test_more_than_a_fifth_of_tombstones_is_built_away_and_no_less() -> None:
    index = filled(100)
    for id in range(20):
        index.remove(id)
    assert index.rebuild_if_worn() is False
    index.remove(20)
    before = [index.nearest(unit_vector(id), 3) for id in range(40, 60)]
    assert index.tombstones == 21
    assert index.rebuild_if_worn() is True
    assert (len(index), index.tombstones) == (79, 0)
    assert [index.nearest(unit_vector(id), 3) for id in range(40, 60)] == before
    for id in range(100):
        index.remove(id)
    assert index.rebuild_if_worn() is True
    assert index.nearest(unit_vector(1), 3) == []


def test_searching_while_adding_removing_and_rebuilding_never_sees_half_a_change() -> None:
    index = filled(300, 16)
    stop = threading.Event()
    wrong: list[object] = []

    def search() -> None:
        while not stop.is_set():
            for id in range(0, 100, 7):
                found = index.nearest(unit_vector(id, 16), 3)
                if found[0][0] != id:
                    wrong.append((id, found))

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for round_ in range(4):
        for id in range(1000 * round_ + 1000, 1000 * round_ + 1200):
            index.add(id, unit_vector(id, 16))
        for id in range(1000 * round_ + 1000, 1000 * round_ + 1200):
            index.remove(id)
        index.rebuild_if_worn()
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_importing_the_store_loads_neither_onnxruntime_nor_usearch_and_using_it_loads_them_in_order() -> None:
    script = (
        "import sys, store, store.store, store.examples.vector_index\n"
        "assert not {'usearch', 'onnxruntime'} & set(sys.modules)\n"
        "from store.examples.tenant_index import new_usearch_index\n"
        "new_usearch_index(8)\n"
        "names = list(sys.modules)\n"
        "assert names.index('onnxruntime') < names.index('usearch')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr


def test_an_index_that_never_held_anything_has_no_bytes() -> None:
    with pytest.raises(ValueError, match="no bytes"):
        TenantIndex(8).to_bytes()
    assert isinstance(filled(2).to_bytes(), bytearray)
    assert np.isfinite(filled(2).nearest(unit_vector(0), 1)[0][1])


def test_a_search_is_widened_as_the_graph_grows_and_never_narrowed_for_it() -> None:
    sizes = [0, 1_000, 100_000, 200_000, 500_000, 1_000_000, 10_000_000]
    widths = [expansion_search(size) for size in sizes]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def test_the_width_in_use_is_the_one_for_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    index = filled(30)
    monkeypatch.setattr("store.examples.tenant_index.expansion_search", lambda count: 200 + count)
    index.nearest(unit_vector(1), 3)
    assert index._index.expansion_search == 230


def test_the_count_of_tombstones_never_strays_from_what_the_graph_has() -> None:
    chance = random.Random(4)
    index = TenantIndex(8)
    for turn in range(3000):
        id = chance.randrange(200)
        if chance.random() < 0.6:
            index.add(id, unit_vector(id))
        else:
            index.remove(id)
        if turn % 100 == 99 and index._index is not None:
            assert index.tombstones == int(index._index.stats.nodes) - len(index)
            if turn % 700 == 699:
                index.rebuild()
