"""Two replicas, each with a folder of its own, and one PostgreSQL database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from store import Store
from store.blobs import RowBlobs
from store.examples.seals import Seal, sealed, unsealed
from store.examples.shared_snapshots import SharedSnapshots
from store.examples.tenant_index import TenantIndex
from store.records import NewExample
from store.sqlite.database import Database
from tests.patience import eventually
from tests.postgres_fixtures import with_the_secret

SEAL = Seal("a1", "database", "v1", 8, seq=10, count=3)
GRAPH = bytes(range(256)) * 20


@pytest.fixture
def blobs(tmp_path: Path) -> Iterator[RowBlobs]:
    database = Database.open(tmp_path / "understudy.db")
    yield RowBlobs(database)
    database.close()


@pytest.fixture
def shared(blobs: RowBlobs) -> SharedSnapshots:
    shared = SharedSnapshots(blobs)
    assert shared.publish(SEAL, GRAPH)
    return shared


def test_a_seal_that_was_changed_is_none() -> None:
    written = sealed(SEAL, {"file": "x"})
    assert unsealed(json.dumps(written).encode()) == (SEAL, {k: v for k, v in written.items() if k != "seal"})
    assert unsealed(json.dumps({**written, "seq": 11}).encode()) is None
    for broken in (b"", b"[]", b"null", b"[" * 100_000):
        assert unsealed(broken) is None


def test_what_is_published_is_found_until_something_fresher_is(
    shared: SharedSnapshots, blobs: RowBlobs
) -> None:
    assert shared.graph(replace(SEAL, seq=12)) == (SEAL, GRAPH)
    assert not shared.publish(SEAL, GRAPH), "it is there"
    later = replace(SEAL, seq=20)
    assert shared.publish(later, GRAPH[::-1]) and shared.graph(later) == (later, GRAPH[::-1])
    assert len(blobs.names("snapshots/graphs/")) == 1


@pytest.mark.parametrize(
    "wanted",
    [
        replace(SEAL, version="v2"),
        replace(SEAL, dimensions=16),
        replace(SEAL, database_id="another"),
        replace(SEAL, tenant="b2"),
        replace(SEAL, seq=9),
    ],
)
def test_what_is_of_something_else_is_not_used_and_stays_for_whom_it_is_for(
    shared: SharedSnapshots, wanted: Seal
) -> None:
    assert shared.seal(wanted) is None and shared.graph(wanted) is None
    assert shared.seal(SEAL) == SEAL


def test_what_was_cut_short_is_not_used(shared: SharedSnapshots, blobs: RowBlobs) -> None:
    (name,) = blobs.names("snapshots/graphs/")
    blobs.put(name, GRAPH[:-1])
    assert shared.graph(SEAL) is None


def test_a_graph_without_a_seal_is_swept(shared: SharedSnapshots, blobs: RowBlobs) -> None:
    blobs.put("snapshots/graphs/a1.11-of-a-kill", b"half")
    assert shared.sweep() == 0, "so young a graph may be about to get its seal"
    assert shared.sweep(older_than_s=0) == 1 and shared.graph(SEAL) == (SEAL, GRAPH)
    shared.remove("a1")
    assert blobs.names("") == {}


# ---- whole stores


def example(number: int) -> NewExample:
    vector = np.random.default_rng(number).standard_normal(8).astype(np.float32)
    question = f"question {number}"
    return NewExample(
        tenant="a1",
        scope="s",
        question=question,
        answer="answer",
        embedded_text=question,
        vector=vector,
        embedding_version="v1",
        source_engine="reference",
        request_id=question,
    )


def filled(store: Store, numbers: range) -> None:
    for waiting in [store.examples.add(example(number)) for number in numbers]:
        waiting.result(30)
    assert store.follower is not None and store.follower.wait_for(store.examples.last_seq(), 30)


@pytest.fixture
def open_replica(postgres_url: str, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    opened: list[Store] = []

    def open_one(name: str, **options: Any) -> Store:
        opened.append(
            Store.open(
                with_the_secret(tmp_path / name),
                database_url=postgres_url,
                dimensions=8,
                embedding_version="v1",
                **options,
            )
        )
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def blobs_there(postgres_url: str) -> Iterator[RowBlobs]:
    from store.postgres.database import PostgresDatabase

    database = PostgresDatabase.open(postgres_url)
    yield RowBlobs(database)
    database.close()


def vectors_published(blobs: RowBlobs) -> int:
    known = unsealed(blobs.get("snapshots/seals/a1") or b"")
    return 0 if known is None else known[0].count


def published(store: Store) -> int:
    assert store.indexes is not None and store.indexes.publisher is not None
    return store.indexes.publisher.published


@pytest.mark.slow
def test_a_fresh_replica_loads_what_the_owner_published_and_follows_the_log_from_there(
    open_replica: Callable[..., Store], blobs_there: RowBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = open_replica("one", owner=lambda: True, save_every_s=0.05)
    filled(owner, range(40))
    assert eventually(lambda: vectors_published(blobs_there) == 40)
    owner.close()

    late = open_replica("two", save_every_s=1e6)
    filled(late, range(40, 43))
    late.close()

    added: list[int] = []
    add = TenantIndex.add

    def counting(index: TenantIndex, id: int, vector: Any) -> None:
        added.append(id)
        add(index, id, vector)

    monkeypatch.setattr(TenantIndex, "add", counting)
    fresh = open_replica("three")
    assert fresh.follower is not None and fresh.indexes is not None
    assert fresh.follower.wait_for(fresh.examples.last_seq(), 30)
    assert fresh.indexes.size("a1") == 43
    assert len(added) == 3, "the rest came from the snapshot"
    for number in (0, 20, 42):
        new = example(number)
        assert new.vector is not None
        ((id, similarity),) = fresh.indexes.nearest("a1", new.vector, 1)
        found = fresh.examples.get("a1", id)
        assert similarity > 0.99 and found is not None and found.question == new.question
    assert published(fresh) == published(late) == 0, "only the owner publishes"


@pytest.mark.slow
def test_of_two_replicas_the_one_with_the_lease_publishes_and_the_other_takes_over(
    open_replica: Callable[..., Store], blobs_there: RowBlobs
) -> None:
    replicas = [open_replica(name, save_every_s=0.05) for name in ("one", "two")]
    filled(replicas[0], range(20))
    assert eventually(lambda: vectors_published(blobs_there) == 20)
    (held,) = replicas[0].jobs.leases.held()
    assert held.name == "index"
    (holder,) = [store for store in replicas if published(store)]
    (other,) = [store for store in replicas if store is not holder]
    holder.close()
    filled(other, range(20, 25))
    assert eventually(lambda: vectors_published(blobs_there) == 25)


def test_a_forgotten_tenant_has_no_snapshot_anywhere(
    open_replica: Callable[..., Store], blobs_there: RowBlobs
) -> None:
    owner = open_replica("one", owner=lambda: True, save_every_s=0.05)
    filled(owner, range(20))
    assert eventually(lambda: vectors_published(blobs_there) == 20)
    other = open_replica("two")
    assert other.follower is not None and other.follower.wait_for(other.examples.last_seq(), 30)
    assert list((other.folder / "index").glob("a1*")), "it was fetched"

    other.examples.remove_tenant("a1").result(30)
    assert other.follower.wait_for(other.examples.last_seq(), 30) and other.indexes is not None
    other.indexes.forget("a1")
    assert eventually(lambda: not list((owner.folder / "index").glob("a1*")))
    assert not list((other.folder / "index").glob("a1*"))
    assert eventually(lambda: not blobs_there.names("snapshots/"))
