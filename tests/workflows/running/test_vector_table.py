"""Nearest texts, in whatever order they were added."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workflows.running.vector_table import VectorTable


def rows(many: int, dimensions: int = 8, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((many, dimensions)).astype(np.float32)


async def test_the_nearest_come_first_with_their_distance_and_place() -> None:
    table = VectorTable()
    table.add(10, ["east", "north"], np.array([[2, 0], [0, 3]], np.float32))
    table.add(0, ["west"], np.array([[-1, 0]], np.float32))
    found = await table.search(np.array([5, 0.0], np.float32), 9)
    assert [(text, round(distance, 5), place) for text, distance, place in found] == [
        ("east", 0.0, 10),
        ("north", 1.0, 11),
        ("west", 2.0, 0),
    ]
    assert len(await table.search(np.array([5, 0.0], np.float32), 2)) == 2
    assert await VectorTable().search(np.array([1.0], np.float32), 3) == []


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 6))
async def test_the_order_of_adding_never_matters(seed: int, many: int, piece: int) -> None:
    texts, vectors = [f"t{n}" for n in range(many)], rows(many, 4, seed)
    # Some are the same: then the place decides.
    vectors[many // 2 :] = vectors[: many - many // 2]
    pieces = [(start, texts[start : start + piece]) for start in range(0, many, piece)]
    whole, cut = VectorTable(), VectorTable()
    whole.add(0, texts, vectors)
    random.Random(seed).shuffle(pieces)
    for start, some in pieces:
        cut.add(start, some, vectors[start : start + piece])
        cut.add(start, some, vectors[start : start + piece])
    wanted = rows(1, 4, seed + 1)[0]
    assert await whole.search(wanted, 5) == await cut.search(wanted, 5)


async def test_what_is_added_after_a_search_is_found_by_the_next() -> None:
    table = VectorTable()
    table.add(0, ["a"], rows(1))
    await table.search(rows(1)[0], 1)
    table.add(1, ["b"], rows(1))
    assert [text for text, _, _ in await table.search(rows(1)[0], 5)] == ["a", "b"]


async def test_large_ones_are_searched_on_threads_and_by_a_graph() -> None:
    texts, vectors = [f"t{n}" for n in range(3000)], rows(3000, 96)
    exact, graph = VectorTable(), VectorTable(exact_up_to=1000)
    for table in (exact, graph):
        table.add(0, texts, vectors)
    for n in (0, 700, 2999):
        first = await exact.search(vectors[n], 3)
        assert first[0][0] == f"t{n}" and (await graph.search(vectors[n], 3))[0] == first[0]
    graph.add(3000, ["new"], vectors[:1])
    assert [text for text, _, _ in await graph.search(vectors[0], 2)] == ["t0", "new"]
    assert exact.size_bytes > 3000 * 96 * 4


async def test_a_graph_takes_in_what_is_new_and_nothing_else() -> None:
    table, vectors = VectorTable(exact_up_to=100), rows(6000, 16)
    table.add(0, [f"t{n}" for n in range(5000)], vectors[:5000])
    await table.search(vectors[0], 1)
    graph = table._graph
    for n in range(5000, 5010):
        table.add(n, [f"t{n}"], vectors[n : n + 1])
        table.add(0, ["t0"], vectors[:1])
        assert (await table.search(vectors[n], 1))[0][0] == f"t{n}"
    assert table._graph is graph and len(graph) == 5010
    table.add(7, ["other"], vectors[5999:])
    assert (await table.search(vectors[5999], 1))[0][::2] == ("other", 7)
    assert table._graph is not graph and len(table._graph) == 5010
    whole = VectorTable()
    whole.add(0, [f"t{n}" for n in range(6000)], vectors)
    assert (await whole.search(vectors[4096], 2))[0][2] == 4096


async def test_vectors_of_another_size_are_refused() -> None:
    table = VectorTable()
    table.add(0, ["a"], rows(1))
    with pytest.raises(ValueError, match="has 3 numbers; those before have 8"):
        table.add(1, ["b"], rows(1, 3))
    with pytest.raises(ValueError, match="2 vectors for 1 texts"):
        table.add(1, ["b"], rows(2))
    with pytest.raises(ValueError, match="has 3 numbers"):
        await table.search(rows(1, 3)[0], 1)
