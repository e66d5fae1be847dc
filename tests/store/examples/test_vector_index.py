from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from store.examples.bank import ExampleBank
from store.examples.index_follower import IndexFollower
from store.examples.vector_index import BadVector, TenantIndexes
from store.records import Change
from store.sqlite.database import Database
from tests.store.behind import rebuilt_all
from tests.store.rows import new_example, unit_vector


def change(seq: int, tenant: str = "a1", **changes: object) -> Change:
    fields = {"seq": seq, "tenant": tenant, "id": seq, "vector": unit_vector(seq), "removed": False}
    return Change(**({**fields, "embedding_version": "v1"} | changes))  # type: ignore[arg-type]


@pytest.fixture
def indexes(tmp_path: Path) -> TenantIndexes:
    return TenantIndexes(tmp_path / "index", 8, "v1")


def nothing() -> None:
    pass


def loaded(bank: ExampleBank, folder: Path, tenant: str, version: str = "v1") -> TenantIndexes:
    indexes = TenantIndexes(folder, 8, version)
    indexes.attach(bank, nothing)
    indexes.load(tenant)
    return indexes


def test_tenants_with_the_very_same_texts_never_meet(indexes: TenantIndexes) -> None:
    chance = random.Random(5)
    owner: dict[int, str] = {}
    changes = []
    for seq in range(1, 400):
        owner[seq] = chance.choice(["a1", "b2", "c3", "default"])
        changes.append(change(seq, owner[seq], vector=unit_vector(seq % 10)))
    indexes.fold(changes)
    for tenant in ("a1", "b2", "c3", "default"):
        for direction in range(10):
            found = indexes.nearest(tenant, unit_vector(direction), 500)
            assert {owner[id] for id, _ in found} == {tenant}
            assert found[0][1] == pytest.approx(1.0, abs=0.005)
    assert indexes.nearest("d4", unit_vector(1), 10) == []


def test_folding_twice_is_folding_once(indexes: TenantIndexes) -> None:
    log = [change(1), change(2), change(3, id=1, removed=True, vector=None, embedding_version=""), change(4)]
    indexes.fold(log)
    once = indexes.nearest("a1", unit_vector(2), 10)
    indexes.fold(log)
    assert indexes.nearest("a1", unit_vector(2), 10) == once
    assert {id for id, _ in once} == {2, 4}


def test_another_embedder_s_vectors_are_out_until_embedded_anew(indexes: TenantIndexes) -> None:
    indexes.fold([change(1), change(2, id=1, embedding_version="v2"), change(3, vector=None)])
    assert indexes.nearest("a1", unit_vector(1), 10) == []
    indexes.fold([change(4, id=1), change(5, id=3)])
    assert {id for id, _ in indexes.nearest("a1", unit_vector(1), 10)} == {1, 3}


def test_a_vector_that_is_no_direction_neither_enters_nor_stops_the_fold(indexes: TenantIndexes) -> None:
    bad = [np.zeros(8), np.full(8, np.nan), np.ones(9), np.ones((1, 8))]
    indexes.fold([*(change(seq, vector=vector) for seq, vector in enumerate(bad, 1)), change(9)])
    assert [id for id, _ in indexes.nearest("a1", unit_vector(1), 10)] == [9]
    assert indexes.refused == 4


@pytest.mark.parametrize("query", [np.zeros(8), np.full(8, np.nan), np.ones(9), np.ones((2, 8))])
def test_a_query_that_is_no_direction_is_refused(indexes: TenantIndexes, query: np.ndarray) -> None:
    with pytest.raises(BadVector):
        indexes.nearest("a1", query, 3)
    with pytest.raises(ValueError, match="k is 0"):
        indexes.nearest("a1", unit_vector(1), 0)


@pytest.fixture
def bank(db: Database) -> ExampleBank:
    bank = ExampleBank(db)
    for number in range(60):
        bank.add(new_example(number, tenant="a1" if number % 2 else "b2"))
    assert db.drain(30)
    return bank


def saved(bank: ExampleBank, folder: Path) -> TenantIndexes:
    indexes = loaded(bank, folder, "a1")
    assert indexes.save(bank.database_id(), bank.last_seq()) == 1
    return indexes


def answers(indexes: TenantIndexes) -> list[list[tuple[int, float]]]:
    return [indexes.nearest("a1", unit_vector(number), 7) for number in range(60)]


def test_a_restart_keeps_every_neighbour_with_or_without_the_snapshot(
    bank: ExampleBank, tmp_path: Path
) -> None:
    before = answers(saved(bank, tmp_path / "index"))
    assert answers(loaded(bank, tmp_path / "index", "a1")) == before
    assert answers(loaded(bank, tmp_path / "elsewhere", "a1")) == before


def test_a_snapshot_is_caught_up_with_what_came_and_went_since(bank: ExampleBank, tmp_path: Path) -> None:
    saved(bank, tmp_path / "index")
    bank.add(new_example(100)).result(30)
    bank.remove("a1", [example for example, _ in [(bank.tail(0)[1].id, 0)]]).result(30)
    assert answers(loaded(bank, tmp_path / "index", "a1")) == answers(
        loaded(bank, tmp_path / "elsewhere", "a1")
    )


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "garbage", "gone", "seal"])
def test_a_damaged_snapshot_is_rebuilt_and_never_loaded(
    bank: ExampleBank, tmp_path: Path, damage: str
) -> None:
    before = answers(saved(bank, tmp_path / "index"))
    (file,) = (tmp_path / "index").glob("*.usearch")
    content = bytearray(file.read_bytes())
    chance = random.Random(3)
    if damage == "flip":
        for _ in range(200):
            content[chance.randrange(len(content))] ^= 255
        file.write_bytes(content)
    elif damage == "gone":
        file.unlink()
    elif damage == "seal":
        seal = tmp_path / "index" / "a1.json"
        seal.write_text(seal.read_text().replace('"count": 30', '"count": 31'))
    else:
        file.write_bytes(
            {"truncate": content[:-100], "empty": b"", "garbage": chance.randbytes(9000)}[damage]
        )

    again = loaded(bank, tmp_path / "index", "a1")

    assert answers(again) == before
    assert again.save(bank.database_id(), bank.last_seq()) == 1
    assert answers(loaded(bank, tmp_path / "index", "a1")) == before


def test_a_snapshot_of_an_earlier_embedder_is_not_searched(bank: ExampleBank, tmp_path: Path) -> None:
    saved(bank, tmp_path / "index")
    assert answers(loaded(bank, tmp_path / "index", "a1", version="v2")) == [[]] * 60


def test_a_snapshot_from_another_database_is_not_searched(bank: ExampleBank, tmp_path: Path) -> None:
    saved(bank, tmp_path / "index")
    other = Database.open(tmp_path / "other.db")
    other_bank = ExampleBank(other)
    only = other_bank.add(new_example(500)).result(30)
    assert {id for found in answers(loaded(other_bank, tmp_path / "index", "a1")) for id, _ in found} == {
        only.id
    }
    other.close()


def test_nothing_is_written_when_nothing_changed_and_an_emptied_tenant_leaves_no_file(
    bank: ExampleBank, tmp_path: Path
) -> None:
    indexes = saved(bank, tmp_path / "index")
    assert indexes.save(bank.database_id(), bank.last_seq()) == 0
    bank.remove_tenant("a1").result(30)
    indexes.fold(bank.tail(60))
    indexes.save(bank.database_id(), bank.last_seq())
    assert [file.name for file in (tmp_path / "index").iterdir()] == [".lock"]


def test_the_tenant_not_used_for_longest_makes_room_and_comes_back_whole(
    bank: ExampleBank, tmp_path: Path
) -> None:
    asked: list[int] = []
    indexes = TenantIndexes(tmp_path / "index", 8, "v1", max_resident=1)
    indexes.attach(bank, lambda: asked.append(1))
    indexes.load("a1")
    indexes.load("b2")
    assert indexes.resident() == ["b2"]

    indexes.fold([change(1000)])
    assert indexes.nearest("a1", unit_vector(1), 5) == []
    assert (indexes.wanted(), asked) == (["a1"], [1])

    indexes.load("a1")
    assert indexes.wanted() == []
    assert len(indexes.nearest("a1", unit_vector(1), 100)) == 30
    assert indexes.size("b2") == 0


def test_made_up_tenants_push_no_real_one_out_of_memory(bank: ExampleBank, tmp_path: Path) -> None:
    indexes = TenantIndexes(tmp_path / "index", 8, "v1", max_resident=2)
    indexes.attach(bank, nothing)
    indexes.load("a1")
    for number in range(100):
        assert indexes.nearest(f"{number:x}", unit_vector(1), 3) == []
        for tenant in indexes.wanted():
            indexes.load(tenant)
    assert indexes.resident() == ["a1"]
    assert indexes.nearest("0", unit_vector(1), 3) == []
    assert indexes.wanted() == []

    added = bank.add(new_example(777, tenant="0")).result(30)
    indexes.fold(bank.tail(added.seq - 1))
    assert [id for id, _ in indexes.nearest("0", unit_vector(777), 3)] == [added.id]


def test_forgetting_a_tenant_takes_its_index_and_its_file(bank: ExampleBank, tmp_path: Path) -> None:
    indexes = saved(bank, tmp_path / "index")
    indexes.forget("a1")
    assert indexes.resident() == []
    assert [file.name for file in (tmp_path / "index").iterdir()] == [".lock"]


def test_while_an_embedder_is_changed_only_what_is_embedded_anew_is_served(
    bank: ExampleBank, tmp_path: Path
) -> None:
    saved(bank, tmp_path / "index")
    indexes = loaded(bank, tmp_path / "index", "a1", version="v2")
    assert indexes.size("a1") == 0
    follower = IndexFollower(bank, indexes, poll_s=1e6)
    bank.on_change(follower.notify)
    follower.start()
    done: set[int] = set()
    for waiting in bank.without_vector("v2", 1000):
        bank.set_vector(waiting.id, unit_vector(waiting.id + 500), "v2").result(30)
        if waiting.tenant == "a1":
            done.add(waiting.id)
        if waiting.id % 7 == 0:
            assert follower.wait_for(bank.last_seq(), 30)
            assert {id for id, _ in indexes.nearest("a1", unit_vector(1), 100)} == done
    assert follower.wait_for(bank.last_seq(), 30)
    assert indexes.size("a1") == bank.count("a1") == len(done)
    assert all(indexes.nearest("a1", unit_vector(id + 500), 1)[0][0] == id for id in done)
    assert follower.stop()
    assert loaded(bank, tmp_path / "index", "a1", version="v1").size("a1") == 0, (
        "the earlier version's vectors are gone for good, and a graph never holds two versions"
    )


def test_no_snapshot_holds_a_vector_that_was_to_leave_the_files(bank: ExampleBank, tmp_path: Path) -> None:
    indexes = saved(bank, tmp_path / "index")
    gone = next(change for change in bank.tail(0) if change.tenant == "a1")
    assert gone.vector is not None
    bank.remove("a1", [gone.id]).result(30)
    indexes.fold(bank.tail(60))
    assert indexes._resident["a1"].tainted
    assert indexes.save(bank.database_id(), bank.last_seq()) == 1
    assert not indexes._resident["a1"].tainted
    assert (indexes.size("a1"), indexes._resident["a1"].tombstones) == (29, 0)


def test_a_large_graph_is_rebuilt_beside_the_follower_and_not_saved_before(
    bank: ExampleBank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.examples.vector_index._REBUILT_AT_ONCE", 10)
    indexes = saved(bank, tmp_path / "index")
    held = indexes._resident["a1"]
    with held._rebuilding:
        bank.remove("a1", [bank.page("a1")[0].id]).result(30)
        indexes.fold(bank.tail(60))
        assert indexes.save(bank.database_id(), bank.last_seq()) == 0
        assert not list((tmp_path / "index").glob("a1.*")), "the old snapshot still held it"
        assert len(indexes.nearest("a1", unit_vector(1), 100)) == 29
    rebuilt_all(indexes.rebuilder)
    assert indexes.save(bank.database_id(), bank.last_seq()) == 1
    bank.remove("a1", [example.id for example in bank.page("a1")[:12]]).result(30)
    indexes.fold(bank.tail(61))
    indexes.purge("a1", bank.database_id())
    assert (held.tombstones, indexes.size("a1")) == (0, 17)
    assert indexes.close()
