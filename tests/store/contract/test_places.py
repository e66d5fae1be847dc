"""A map is put in place whole, holds nothing of what is gone, and belongs to one tenant."""

from __future__ import annotations

import numpy as np

from store import Store
from tests.store.rows import new_example, unit_vector


def test_a_map_is_replaced_whole_and_examples_take_their_place_with_them(store: Store) -> None:
    bank, places = store.examples, store.examples.places
    ids = [bank.add(new_example(n)).result(30).id for n in range(4)]
    other = bank.add(new_example(9, "b2")).result(30).id
    assert places.made_at_s("a1") is None and places.of("a1", 10) == []
    grid = np.arange(12, dtype=np.float64).reshape(6, 2)
    assert places.put("a1", [*ids, other, 999], grid, 50.0).result(30) == 4, (
        "only the tenant's own that are there"
    )
    assert places.made_at_s("a1") == (50.0, 4) and places.made_at_s("b2") is None
    shown = places.of("a1", 3, characters=8)
    assert [(p.example_id, p.x, p.y) for p in shown] == [
        (ids[3], 6.0, 7.0),
        (ids[2], 4.0, 5.0),
        (ids[1], 2.0, 3.0),
    ]
    assert shown[0].question == "question" and shown[0].engine == "large"
    bank.remove("a1", [ids[3]]).result(30)
    assert places.made_at_s("a1") == (50.0, 3)
    assert places.put("a1", ids[:1], grid[:1], 60.0).result(30) == 1 and len(places.of("a1", 10)) == 1


def test_vectors_are_the_latest_of_the_usual_embedding(store: Store) -> None:
    bank, places = store.examples, store.examples.places
    made = [bank.add(new_example(n)).result(30).id for n in range(5)]
    bank.add(new_example(7, vector=unit_vector(7, 16), embedding_version="v0")).result(30)
    bank.add(new_example(8, vector=None)).result(30)
    ids, vectors = places.vectors("a1", 4)
    assert ids.tolist() == [made[4], made[3], made[2]] and vectors.shape == (3, 8)
    assert float(vectors[0] @ unit_vector(4)) > 0.999
    assert places.vectors("b2", 4)[1].shape == (0, 0)
