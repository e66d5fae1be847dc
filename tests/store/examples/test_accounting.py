"""Uses, gain and judgements: what is counted in one place must not be lost, doubled or made dependent on order."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.database import Database
from store.errors import StoreBusy, StoreClosed
from store.examples.accounting import DECAY_RATE_PER_S, Ledger, accumulated, decayed, worth
from store.examples.bank import ExampleBank
from store.sqlite.database import Database as SqliteDatabase
from tests.store.behind import admit_each
from tests.store.rows import new_example

HOUR = 3600.0
NOW = 1_790_000_000.0


class Clock:
    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


@given(
    st.lists(st.tuples(st.floats(0.01, 100), st.floats(0, 30 * 24)), min_size=2, max_size=12),
    st.randoms(use_true_random=False),
)
def test_the_order_in_which_amounts_arrive_changes_nothing(
    amounts: list[tuple[float, float]], chance: object
) -> None:
    def total(order: list[tuple[float, float]]) -> float:
        value, at_s = 0.0, 0.0
        for amount, hours in order:
            value, at_s = accumulated(value, at_s, amount, NOW + hours * HOUR)
        return decayed(value, at_s, NOW + 31 * 24 * HOUR)

    shuffled = list(amounts)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert total(shuffled) == pytest.approx(total(amounts), rel=1e-6)


def test_worth_is_the_logarithm_of_utility_and_its_order_never_changes_with_time() -> None:
    # Used 3 times as of now, seen 10 hours ago, judged good twice: (3 + 0.9^10) x (2 + 1) / (2 + 2).
    value = worth(3.0, NOW, NOW - 10 * HOUR, 2.0, 2)
    assert math.exp(value - DECAY_RATE_PER_S * NOW) == pytest.approx((3 + 0.9**10) * 0.75, rel=1e-6)
    newcomer = worth(0.0, NOW, NOW)
    assert math.exp(newcomer - DECAY_RATE_PER_S * NOW) == pytest.approx(0.5, rel=1e-6)
    assert (
        value > newcomer > worth(3.0, NOW - 100 * HOUR, NOW - 100 * HOUR) > worth(0.0, 0.0, NOW - 5000 * HOUR)
    )
    assert worth(1.0, NOW, NOW, 0.0, 4) < newcomer + math.log(2)


def test_noting_touches_no_disk_and_nothing_noted_is_lost_by_a_flush_that_fails(tmp_path: Path) -> None:
    db = SqliteDatabase.open(tmp_path / "u.db")
    bank = ExampleBank(db)
    id = bank.add(new_example(1)).result(30).id
    version = db.data_version()
    bank.note_use([id])
    assert (db.pending, db.data_version()) == (0, version)
    db.close()
    bank.note_use([id])
    with pytest.raises(StoreClosed):
        bank.flush_uses()

    again = SqliteDatabase.open(tmp_path / "u.db", max_pending=0)
    bank.ledger._db = again
    with pytest.raises(StoreBusy):
        bank.flush_uses()
    again.close()
    third = SqliteDatabase.open(tmp_path / "u.db")
    bank.ledger._db = third
    written = bank.flush_uses()
    assert written is not None
    written.result(30)
    found = ExampleBank(third).get("a1", id)
    assert found is not None and found.uses == 2
    third.close()


@pytest.mark.slow
def test_workers_add_up_and_overwrite_nothing_of_each_other(
    db: Database, open_again: Callable[[], Database]
) -> None:
    clock = Clock(NOW)
    stores = [db, open_again(), open_again()]
    id = ExampleBank(stores[0]).add(new_example(1)).result(30).id
    ledgers = [Ledger(each, clock=clock) for each in stores]
    for hour, ledger in enumerate(ledgers):
        clock.now_s = NOW + hour * HOUR
        ledger.note_use([id])
        ledger.note_use([id])
        ledger.note_gain([id], 0.5)
        ledger.note_quality(id, 0.25 * (hour + 1))
    for ledger in reversed(ledgers):
        for written in ledger.flush():
            written.result(30)

    found = ExampleBank(stores[0]).get("a1", id)
    assert found is not None
    assert (found.uses, found.last_used_at_s) == (6, NOW + 2 * HOUR)
    assert found.used == pytest.approx(2 * (1 + 0.9 + 0.81))
    assert found.gain == pytest.approx(0.5 * (1 + 0.9 + 0.81))
    assert found.used_at_s == found.gain_at_s == NOW + 2 * HOUR
    assert (found.quality, found.quality_count) == (pytest.approx(0.5), 3)


@pytest.mark.slow
def test_accounts_survive_a_restart_and_notes_about_what_is_gone_are_no_error(
    db: Database, open_again: Callable[[], Database]
) -> None:
    bank = ExampleBank(db)
    kept, gone = (bank.add(new_example(number)).result(30).id for number in (1, 2))
    bank.note_use([kept, gone, 12345])
    bank.remove("a1", [gone]).result(30)
    written = bank.flush_uses()
    assert written is not None
    written.result(30)
    before = bank.get("a1", kept)
    db.close()
    assert ExampleBank(open_again()).get("a1", kept) == before
    assert before is not None and before.uses == 1


@pytest.mark.sqlite
def test_many_noted_examples_are_written_in_more_than_one_transaction(db: Database) -> None:
    bank = ExampleBank(db)
    ids = [one.example.id for one in admit_each(bank, (new_example(number) for number in range(1100)))]
    bank.note_use(ids)
    written = bank.ledger.flush()
    assert len(written) == 3
    for future in written:
        future.result(30)
    assert {example.uses for example in bank.by_ids("a1", ids)} == {1}


def test_a_judgement_outside_its_scale_is_refused(db: Database) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Ledger(db).note_quality(1, 3)
    with pytest.raises(ValueError, match="between 0 and 1"):
        ExampleBank(db).admit(new_example(1, quality=-0.5))
