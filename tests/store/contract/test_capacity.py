"""Eviction: as little as must, never what is held, and hardly worse than the best possible choice."""

from __future__ import annotations

import math
import random

import pytest

from store import Store
from store.examples.bank import ExampleBank
from store.examples.capacity import Item, victims
from store.examples.rows import FIXED_BYTES
from store.records import Example
from tests.store.behind import admit_each
from tests.store.rows import new_example


def most_value(items: list[tuple[int, float]], cap_bytes: int) -> float:
    """The exact 0/1 knapsack, by dynamic programming over bytes (Bellman)."""
    best = [0.0] * (cap_bytes + 1)
    for size, value in items:
        for room in range(cap_bytes, size - 1, -1):
            best[room] = max(best[room], best[room - size] + value)
    return best[cap_bytes]


@pytest.mark.parametrize("seed", range(60))
def test_greedy_never_loses_more_than_one_example_s_utility_against_the_exact_solver(seed: int) -> None:
    chance = random.Random(seed)
    pairs = [(chance.randint(1, 40), chance.lognormvariate(0, 1.5)) for _ in range(chance.randint(3, 25))]
    total = sum(size for size, _ in pairs)
    cap = chance.randint(1, total)
    items = sorted(
        (Item(id, size, math.log(value)) for id, (size, value) in enumerate(pairs)),
        key=lambda item: item.worth - math.log(item.size_bytes),
    )
    gone = victims(items, total - cap)

    left = [item for item in items if item not in gone]
    assert sum(item.size_bytes for item in left) <= cap
    kept = sum(math.exp(item.worth) for item in left)
    best = most_value(pairs, cap)
    plain, freed = [], 0
    for item in items:
        if freed < total - cap:
            plain.append(item)
            freed += item.size_bytes
    at_the_cut = math.exp(plain[-1].worth) if plain else 0.0
    assert best - at_the_cut - 1e-9 <= kept <= best + 1e-9
    assert max(kept, max((v for s, v in pairs if s <= cap), default=0.0)) >= best / 2 - 1e-9
    assert all(item.size_bytes > cap - sum(one.size_bytes for one in left) for item in gone), (
        "an example was evicted that would have fitted"
    )


def test_nothing_is_evicted_when_nothing_has_to_be(store: Store) -> None:
    bank = filled(store, 5)
    totals = bank.totals("a1")
    for caps in ({}, {"max_examples": 5}, {"max_bytes": totals.size_bytes}):
        evicted = bank.make_room("a1", **caps)
        assert (evicted.examples, evicted.over) == (0, False)
    assert victims([Item(1, 10, 0.0)], 0) == []
    assert bank.count() == 5


def filled(store: Store, count: int, **changes: object) -> ExampleBank:
    bank = store.examples
    for _ in admit_each(bank, (new_example(number, **changes) for number in range(count))):
        pass
    return bank


def use(bank: ExampleBank, *ids: int) -> None:
    bank.note_use(ids)
    written = bank.flush_uses()
    assert written is not None
    written.result(30)


def everything(bank: ExampleBank, tenant: str = "a1") -> list[Example]:
    return bank.page(tenant, limit=10_000)


def test_over_the_number_the_least_useful_go_and_no_more_than_must(store: Store) -> None:
    bank = filled(store, 30)
    ids = [example.id for example in everything(bank)]
    used = ids[::3]
    use(bank, *used)
    evicted = bank.make_room("a1", max_examples=10, batch=7)
    assert (evicted.examples, evicted.over) == (20, False)
    assert [example.id for example in everything(bank)] == used
    assert bank.totals("a1").examples == 10


def test_over_the_bytes_the_least_useful_per_byte_go(store: Store) -> None:
    bank = store.examples
    short, long = (bank.add(new_example(n, answer="x" * size)).result(30) for n, size in ((1, 10), (2, 9000)))
    use(bank, short.id, long.id)
    evicted = bank.make_room("a1", max_bytes=10_000)
    assert [example.id for example in everything(bank)] == [short.id]
    assert (evicted.examples, evicted.size_bytes) == (1, long.size_bytes)


def test_pinned_examples_and_demonstrations_are_never_evicted_even_over_the_cap(store: Store) -> None:
    bank = filled(store, 6)
    pinned, shown, *_ = everything(bank)
    bank.update("a1", pinned.id, pinned=True).result(30)
    bank.update("a1", shown.id, kind="demonstration").result(30)
    evicted = bank.make_room("a1", max_examples=1, max_bytes=1, batch=2)
    assert (evicted.examples, evicted.over) == (4, True)
    assert [example.id for example in everything(bank)] == [pinned.id, shown.id]
    assert bank.make_room("a1", max_examples=1).over


def test_one_tenant_s_cap_costs_another_nothing(store: Store) -> None:
    bank = filled(store, 10)
    for number in range(10):
        bank.add(new_example(number, tenant="b2")).result(30)
    bank.make_room("a1", max_examples=3, max_bytes=3 * FIXED_BYTES * 2)
    assert bank.tenants() == {"a1": 3, "b2": 10}
