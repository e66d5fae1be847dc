"""Eviction: as little as must, never what is held, and hardly worse than the best possible choice."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from store.database import Database
from store.examples.accounting import worth
from store.examples.bank import ExampleBank
from store.examples.capacity import make_room
from store.records import Example
from tests.store.behind import admit_each
from tests.store.rows import new_example


def filled(db: Database, count: int, **changes: object) -> ExampleBank:
    bank = ExampleBank(db)
    for _ in admit_each(bank, (new_example(number, **changes) for number in range(count))):
        pass
    return bank


def everything(bank: ExampleBank, tenant: str = "a1") -> list[Example]:
    return bank.page(tenant, limit=10_000)


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


def test_two_workers_making_room_at_once_evict_no_more_than_one(
    db: Database, open_again: Callable[[], Database]
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    filled(db, 200)
    other = open_again()
    with ThreadPoolExecutor(2) as pool:
        done = list(
            pool.map(lambda one: make_room(ExampleBank(one), "a1", max_examples=50, batch=9), (db, other))
        )
    assert sum(evicted.examples for evicted in done) == 150
    assert ExampleBank(other).count() == 50


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
