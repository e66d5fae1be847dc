"""Eviction: as little as must, never what is held, and hardly worse than the best possible choice."""

from __future__ import annotations

import math
import random

import pytest

from store.examples.accounting import worth
from store.examples.bank import ExampleBank
from store.examples.capacity import Item, make_room, victims
from store.examples.rows import FIXED_BYTES
from store.records import Example
from store.sqlite.database import Database
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


def test_nothing_is_evicted_when_nothing_has_to_be(db: Database) -> None:
    bank = filled(db, 5)
    totals = bank.totals("a1")
    for caps in ({}, {"max_examples": 5}, {"max_bytes": totals.size_bytes}):
        evicted = make_room(bank, "a1", **caps)
        assert (evicted.examples, evicted.over) == (0, False)
    assert victims([Item(1, 10, 0.0)], 0) == []
    assert bank.count() == 5


def filled(db: Database, count: int, **changes: object) -> ExampleBank:
    bank = ExampleBank(db)
    for _ in bank.admit_each(new_example(number, **changes) for number in range(count)):
        pass
    return bank


def use(bank: ExampleBank, *ids: int) -> None:
    bank.note_use(ids)
    written = bank.flush_uses()
    assert written is not None
    written.result(30)


def everything(bank: ExampleBank, tenant: str = "a1") -> list[Example]:
    return bank.page(tenant, limit=10_000)


def test_over_the_number_the_least_useful_go_and_no_more_than_must(db: Database) -> None:
    bank = filled(db, 30)
    ids = [example.id for example in everything(bank)]
    used = ids[::3]
    use(bank, *used)
    evicted = make_room(bank, "a1", max_examples=10, batch=7)
    assert (evicted.examples, evicted.over) == (20, False)
    assert [example.id for example in everything(bank)] == used
    assert bank.totals("a1").examples == 10


def test_over_the_bytes_the_least_useful_per_byte_go(db: Database) -> None:
    bank = ExampleBank(db)
    short, long = (bank.add(new_example(n, answer="x" * size)).result(30) for n, size in ((1, 10), (2, 9000)))
    use(bank, short.id, long.id)
    evicted = make_room(bank, "a1", max_bytes=10_000)
    assert [example.id for example in everything(bank)] == [short.id]
    assert (evicted.examples, evicted.size_bytes) == (1, long.size_bytes)


def test_a_long_idle_favourite_goes_before_a_newcomer(db: Database) -> None:
    bank = filled(db, 2)
    favourite, newcomer = everything(bank)
    now_s = favourite.created_at_s

    def long_ago(connection: object) -> None:
        value = worth(50.0, now_s - 40 * 3600, now_s - 40 * 3600)
        connection.execute(  # type: ignore[attr-defined]
            "UPDATE example_accounts SET worth = ?, worth_per_byte = ? WHERE id = ?",
            (value, value - math.log(favourite.size_bytes), favourite.id),
        )

    db.write(long_ago).result(30)
    assert 50 * 0.9**40 < 1
    make_room(bank, "a1", max_examples=1)
    assert [example.id for example in everything(bank)] == [newcomer.id]


def test_pinned_examples_and_demonstrations_are_never_evicted_even_over_the_cap(db: Database) -> None:
    bank = filled(db, 6)
    pinned, shown, *_ = everything(bank)
    bank.update("a1", pinned.id, pinned=True).result(30)
    bank.update("a1", shown.id, kind="demonstration").result(30)
    evicted = make_room(bank, "a1", max_examples=1, max_bytes=1, batch=2)
    assert (evicted.examples, evicted.over) == (4, True)
    assert [example.id for example in everything(bank)] == [pinned.id, shown.id]
    assert make_room(bank, "a1", max_examples=1).over


def test_one_tenant_s_cap_costs_another_nothing(db: Database) -> None:
    bank = filled(db, 10)
    for number in range(10):
        bank.add(new_example(number, tenant="b2")).result(30)
    make_room(bank, "a1", max_examples=3, max_bytes=3 * FIXED_BYTES * 2)
    assert bank.tenants() == {"a1": 3, "b2": 10}


def test_two_workers_making_room_at_once_evict_no_more_than_one(db: Database) -> None:
    from concurrent.futures import ThreadPoolExecutor

    filled(db, 200)
    other = Database.open(db.path)
    with ThreadPoolExecutor(2) as pool:
        done = list(
            pool.map(lambda one: make_room(ExampleBank(one), "a1", max_examples=50, batch=9), (db, other))
        )
    assert sum(evicted.examples for evicted in done) == 150
    assert ExampleBank(other).count() == 50
    other.close()


def test_the_sums_the_caps_go_by_are_what_the_rows_add_up_to(db: Database) -> None:
    chance = random.Random(3)
    bank = filled(db, 40)
    for example in everything(bank):
        what = chance.randrange(4)
        if what == 0:
            bank.remove("a1", [example.id]).result(30)
        elif what == 1:
            bank.update("a1", example.id, answer="é" * chance.randrange(500)).result(30)
        elif what == 2:
            bank.add(new_example(1000 + example.id, vector=None)).result(30)
        else:
            bank.admit(
                new_example(
                    2000 + example.id,
                    question=example.question,
                    answer=example.answer + ".",
                    neighbours=((example.id, 1.0),),
                )
            ).result(30)
    for waiting in bank.without_vector("v1"):
        bank.set_vector(waiting.id, new_example(1).vector, "v1").result(30)  # type: ignore[arg-type]
    rows = (
        db.read()
        .execute(
            "SELECT count(*), sum(1024 + length(vector) + length(CAST(question AS BLOB)) + length(CAST(answer AS BLOB))"
            " + length(CAST(embedded_text AS BLOB))) FROM examples"
        )
        .fetchone()
    )
    totals = bank.totals("a1")
    assert (totals.examples, totals.size_bytes) == rows
    assert sum(example.size_bytes for example in everything(bank)) == totals.size_bytes
    bank.remove_tenant("a1").result(30)
    assert (bank.totals("a1").examples, bank.tenants()) == (0, {})
