from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from store.database import Database
from store.errors import StoreFailed
from store.examples.bank import ExampleBank
from store.examples.index_follower import IndexFollower
from store.examples.vector_index import TenantIndexes
from store.sqlite.database import Database as SqliteDatabase
from tests.patience import eventually
from tests.store.rows import new_example, unit_vector

Start = Callable[..., tuple[TenantIndexes, IndexFollower]]


@pytest.fixture
def bank(db: Database) -> ExampleBank:
    return ExampleBank(db)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    followers: list[IndexFollower] = []

    def begin(bank: ExampleBank, **settings: float) -> tuple[TenantIndexes, IndexFollower]:
        indexes = TenantIndexes(tmp_path / "index", 8, "v1")
        follower = IndexFollower(bank, indexes, **settings)
        bank.on_change(follower.notify)
        follower.start()
        followers.append(follower)
        return indexes, follower

    yield begin
    for follower in followers:
        assert follower.stop()


def test_what_was_just_committed_here_is_found_without_waiting_for_the_poll(
    bank: ExampleBank, start: Start
) -> None:
    indexes, follower = start(bank, poll_s=1e6)
    for number in range(30):
        added = bank.add(new_example(number)).result(30)
        assert follower.wait_for(added.seq, 30)
        assert indexes.nearest("a1", unit_vector(number), 1)[0][0] == added.id
        assert follower.folded_seq >= added.seq


def test_what_another_worker_wrote_and_removed_arrives_by_itself(
    bank: ExampleBank, start: Start, open_again: Callable[[], Database]
) -> None:
    indexes, _ = start(bank, poll_s=0.05)
    other = open_again()
    added = ExampleBank(other).add(new_example(1)).result(30)
    assert eventually(lambda: indexes.nearest("a1", unit_vector(1), 1) != [])
    ExampleBank(other).remove("a1", [added.id]).result(30)
    assert eventually(lambda: indexes.nearest("a1", unit_vector(1), 1) == [])


def test_every_tenant_is_in_memory_before_the_follower_says_it_is_ready(
    bank: ExampleBank, start: Start
) -> None:
    for number in range(40):
        bank.add(new_example(number, tenant=f"a{number % 4}")).result(30)
    indexes, follower = start(bank, poll_s=1e6)
    assert follower.wait_for(0, 30)
    assert follower.ready
    assert [len(indexes.nearest(f"a{tenant}", unit_vector(1), 100)) for tenant in range(4)] == [10] * 4


def test_a_late_embedding_enters_when_it_comes(bank: ExampleBank, start: Start) -> None:
    indexes, follower = start(bank, poll_s=1e6)
    added = bank.add(new_example(1, vector=None)).result(30)
    assert follower.wait_for(added.seq, 30)
    assert indexes.nearest("a1", unit_vector(1), 1) == []
    bank.set_vector(added.id, unit_vector(1), "v1").result(30)
    assert follower.wait_for(bank.last_seq(), 30)
    assert indexes.nearest("a1", unit_vector(1), 1)[0][0] == added.id


def test_stopping_saves_and_the_next_start_loads_and_goes_on(
    bank: ExampleBank, start: Start, tmp_path: Path
) -> None:
    indexes, follower = start(bank, poll_s=1e6)
    for number in range(25):
        bank.add(new_example(number)).result(30)
    assert follower.wait_for(bank.last_seq(), 30)
    before = [indexes.nearest("a1", unit_vector(number), 5) for number in range(25)]
    assert follower.stop()
    assert (tmp_path / "index" / "a1.json").exists()

    with capture_logs() as told:
        again, follower = start(bank, poll_s=1e6)
        assert follower.wait_for(0, 30)
    assert [again.nearest("a1", unit_vector(number), 5) for number in range(25)] == before
    assert [line for line in told if line["log_level"] != "info"] == []


def test_snapshots_are_written_now_and_then_without_being_asked(
    bank: ExampleBank, start: Start, tmp_path: Path
) -> None:
    start(bank, poll_s=0.02, save_every_s=0.02)
    bank.add(new_example(1)).result(30)
    assert eventually((tmp_path / "index" / "a1.json").exists)


def test_an_error_is_told_and_does_not_end_the_follower(
    bank: ExampleBank, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes, follower = start(bank, poll_s=0.02)
    assert follower.wait_for(0, 30)

    def broken(*_: object, **__: object) -> list[object]:
        raise StoreFailed("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(bank, "tail", broken)
        assert eventually(lambda: follower.last_error is not None)
    added = bank.add(new_example(1)).result(30)
    assert follower.wait_for(added.seq, 30)
    assert eventually(lambda: follower.last_error is None)
    assert indexes.size("a1") == 1


def test_waiting_for_what_never_comes_ends(bank: ExampleBank, start: Start) -> None:
    _, follower = start(bank)
    assert follower.wait_for(10**9, 0.05) is False


def test_a_follower_whose_store_was_closed_under_it_ends_quietly(tmp_path: Path, start: Start) -> None:
    db = SqliteDatabase.open(tmp_path / "other.db")
    _, follower = start(ExampleBank(db), poll_s=0.02)
    assert follower.wait_for(0, 30)
    db.close()
    assert follower.stop()
