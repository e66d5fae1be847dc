from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from structlog.testing import capture_logs

from store import Store
from store.errors import SchemaError
from store.examples.vectors import checked
from store.moving.opening import migrated
from store.postgres import vectors as module
from store.postgres.connecting import connect
from store.postgres.vectors import PostgresVectors, prepare
from store.records import NewExample, Vector
from tests.patience import eventually
from tests.postgres_fixtures import with_the_secret

DIMENSIONS = 16


def vector(seed: int) -> Vector:
    return checked(np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32))


def example(tenant: str, seed: int, version: str = "v1") -> NewExample:
    question = f"question {seed}"
    return NewExample(
        tenant=tenant,
        scope="s",
        question=question,
        answer="answer",
        embedded_text=question,
        vector=vector(seed),
        embedding_version=version,
        source_engine="reference",
        request_id=f"{tenant} {question}",
    )


def fill(store: Store, tenant: str, seeds: range) -> dict[int, int]:
    """Ids by seeds."""
    waiting = {seed: store.examples.add(example(tenant, seed)) for seed in seeds}
    return {seed: one.result(30).id for seed, one in waiting.items()}


def followed(store: Store) -> None:
    assert store.follower is not None and store.follower.wait_for(store.examples.last_seq(), 60)


def far(store: Store) -> PostgresVectors:
    assert store.indexes is not None and isinstance(store.indexes.far, PostgresVectors)
    return store.indexes.far


@pytest.fixture
def open_replica(postgres_url: str, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    opened: list[Store] = []

    def open_one(name: str = "one", **options: Any) -> Store:
        options = {"owner": lambda: True, "index": "pgvector", "embedding_version": "v1", **options}
        opened.append(
            Store.open(
                with_the_secret(tmp_path / name),
                database_url=postgres_url,
                dimensions=DIMENSIONS,
                **options,
            )
        )
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def exact(seeds: range, asked: Vector, k: int) -> list[int]:
    return sorted(seeds, key=lambda seed: -float(vector(seed) @ asked))[:k]


def test_tenants_are_searched_in_the_database_each_in_its_own_rows(
    open_replica: Callable[..., Store],
) -> None:
    store = open_replica()
    ids = fill(store, "a1", range(60))
    others = fill(store, "b2", range(100, 110))
    followed(store)
    assert store.indexes is not None and store.indexes.resident() == []
    found = store.indexes.nearest("a1", vector(3), 5)
    assert [id for id, _ in found] == [ids[seed] for seed in exact(range(60), vector(3), 5)]
    assert found[0][1] == pytest.approx(1.0, abs=2e-3)
    assert {id for id, _ in store.indexes.nearest("b2", vector(3), 50)} == set(others.values())
    assert store.indexes.nearest("c3", vector(3), 5) == []


def test_what_is_removed_changed_or_forgotten_is_not_found_again(open_replica: Callable[..., Store]) -> None:
    store = open_replica()
    ids = fill(store, "a1", range(10))
    followed(store)
    store.examples.remove("a1", [ids[3]]).result(30)
    store.examples.set_vector(ids[4], vector(99), "v1").result(30)
    followed(store)
    assert store.indexes is not None
    assert ids[3] not in dict(store.indexes.nearest("a1", vector(3), 10))
    assert store.indexes.nearest("a1", vector(99), 1)[0][0] == ids[4]
    store.examples.remove_tenant("a1").result(30)
    followed(store)
    store.indexes.forget("a1")
    assert store.indexes.nearest("a1", vector(3), 10) == [] and far(store).size("a1") == 0


def test_removals_that_the_log_no_longer_tells_are_found_out(open_replica: Callable[..., Store]) -> None:
    is_owner = False
    store = open_replica(owner=lambda: is_owner)
    ids = fill(store, "a1", range(10))
    is_owner = True
    followed(store)
    is_owner = False
    assert eventually(lambda: far(store).size("a1") == 10)
    store.examples.remove("a1", [ids[3]]).result(30)
    store.examples.compact(keep_removals_s=-10)
    is_owner = True
    assert eventually(lambda: far(store).size("a1") == 9)


def test_only_the_owner_writes_and_another_replica_finds_what_it_wrote(
    open_replica: Callable[..., Store],
) -> None:
    owner, other = open_replica("one"), open_replica("two", owner=lambda: False)
    ids = fill(other, "a1", range(5))
    followed(other)
    assert other.indexes is not None
    assert other.indexes.nearest("a1", vector(2), 1)[0][0] == ids[2]
    assert owner.follower is not None


def has_graph(vectors: module.PostgresVectors, tenant: str) -> bool:
    """Whether a tenant is searched by a graph, and not scanned."""
    return module._graphs(vectors._db.read()).get(module._graph_name(tenant), False)


@pytest.mark.slow
def test_a_large_tenant_gets_a_graph_that_is_used_and_loses_it_when_it_shrinks(
    open_replica: Callable[..., Store], postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BUILD_EVERY_S", 1e6)
    store = open_replica()
    followed(store)
    vectors = far(store)
    vectors._scanned_at_most = 300
    ids = fill(store, "a1", range(600))
    fill(store, "b2", range(40))
    followed(store)
    assert vectors.make_graphs() == 1 and vectors.make_graphs() == 0
    assert has_graph(vectors, "a1") and not has_graph(vectors, "b2")
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        connection.execute("ANALYZE example_vectors")
    hits = 0
    for seed in range(1000, 1020):
        found = {id for id, _ in vectors.nearest("a1", vector(seed), 10)}
        hits += len(found & {ids[one] for one in exact(range(600), vector(seed), 10)})
    assert hits >= 180
    store.examples.remove("a1", [ids[seed] for seed in range(500)]).result(30)
    followed(store)
    assert vectors.make_graphs() == 0 and not has_graph(vectors, "a1")
    assert len(vectors.nearest("a1", vector(1), 100)) == 100


@pytest.mark.slow
def test_another_embedder_begins_anew(open_replica: Callable[..., Store]) -> None:
    store = open_replica()
    fill(store, "a1", range(5))
    followed(store)
    store.close()
    later = open_replica("two", embedding_version="v2", owner=lambda: False)
    assert later.indexes is not None and not far(later).ready
    assert later.indexes.nearest("a1", vector(1), 5) == []
    owner = open_replica("three", embedding_version="v2")
    assert eventually(lambda: far(owner).ready and far(owner).size("a1") == 0)
    owner.examples.add(example("a1", 7, "v2")).result(30)
    assert eventually(lambda: len(later.indexes.nearest("a1", vector(7), 5)) == 1)


def test_beyond_the_limit_of_memory_tenants_are_searched_in_the_database(
    open_replica: Callable[..., Store],
) -> None:
    room_bytes = 2 * (60 * 1024 + 20 * (2 * DIMENSIONS + 256))
    first = open_replica(index="auto", index_memory_bytes=room_bytes)
    ids = {tenant: fill(first, tenant, range(20)) for tenant in ("a1", "b2", "c3")}
    first.close()

    store = open_replica("two", index="auto", index_memory_bytes=room_bytes)
    followed(store)
    assert store.indexes is not None
    assert eventually(lambda: far(store).ready)
    assert store.indexes.resident() == ["a1", "b2"]
    for tenant, seeds in ids.items():
        assert store.indexes.nearest(tenant, vector(5), 1)[0][0] == seeds[5]
    for _ in range(40):
        assert store.indexes.nearest("c3", vector(5), 1)[0][0] == ids["c3"][5]
    assert eventually(lambda: "c3" in store.indexes.resident()), "it is asked for most"
    assert len(store.indexes.resident()) == 2
    assert store.indexes.nearest("a1", vector(6), 1)[0][0] == ids["a1"][6]


def test_where_all_fits_into_memory_nothing_is_written_to_the_database(
    open_replica: Callable[..., Store],
) -> None:
    store = open_replica(index="auto", index_memory_bytes=2**30)
    ids = fill(store, "a1", range(5))
    followed(store)
    assert store.indexes is not None
    assert store.indexes.nearest("a1", vector(1), 1)[0][0] == ids[1]
    assert far(store).size("a1") == 0 and not far(store).ready


def test_a_database_that_fails_finds_nothing_and_raises_nothing(open_replica: Callable[..., Store]) -> None:
    store = open_replica()
    fill(store, "a1", range(5))
    followed(store)
    assert store.indexes is not None
    with far(store)._db.connect(statement_timeout_ms=0) as connection:
        connection.execute("DROP FUNCTION nearest_examples")
    with capture_logs() as logged:
        assert [store.indexes.nearest("a1", vector(1), 5) for _ in range(3)] == [[], [], []]
    assert [line["event"] for line in logged].count("far_vectors_failed") == 1


def test_without_the_extension_usearch_serves_and_the_log_says_why(
    open_replica: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EXTENSION", "vector_that_nobody_has")
    with capture_logs() as logged:
        store = open_replica()
    (line,) = [line for line in logged if line["event"] == "pgvector_not_used"]
    assert "pgvector" in line["problem"] and line["used"] == "usearch"
    ids = fill(store, "a1", range(5))
    followed(store)
    assert store.indexes is not None and store.indexes.far is None
    assert store.indexes.nearest("a1", vector(1), 1)[0][0] == ids[1]


def test_the_owner_of_the_tables_prepares_them_with_the_schema(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert migrated(postgres_url, vectors=True) == []
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        row = connection.execute("SELECT version, seq FROM example_vectors_state").fetchone()
    assert row == ("", 0)
    monkeypatch.setattr(module, "_EXTENSION", "vector_that_nobody_has")
    with pytest.raises(SchemaError, match="pgvector"):
        migrated(postgres_url, vectors=True)


def test_a_role_that_may_only_write_rows_searches_and_says_that_it_makes_no_graphs(
    open_replica: Callable[..., Store], postgres_url: str, tmp_path: Path
) -> None:
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        assert prepare(connection) == prepare(connection) == ""
        connection.execute("DROP ROLE IF EXISTS rows_only")
        connection.execute("CREATE ROLE rows_only LOGIN PASSWORD 'x'")
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO rows_only")
        connection.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO rows_only")
    given = psycopg.conninfo.conninfo_to_dict(postgres_url)
    url = psycopg.conninfo.make_conninfo(**{**given, "user": "rows_only", "password": "x"})
    store = Store.open(
        tmp_path / "rows",
        database_url=url,
        dimensions=DIMENSIONS,
        embedding_version="v1",
        owner=lambda: True,
        index="pgvector",
    )
    try:
        ids = fill(store, "a1", range(5))
        followed(store)
        assert store.indexes is not None
        assert store.indexes.nearest("a1", vector(1), 1)[0][0] == ids[1]
        far(store)._scanned_at_most = 2
        with capture_logs() as logged:
            # While the thread of its own is at it, this builds nothing.
            assert eventually(lambda: far(store)._build_what_is_due() or far(store)._refused)
        assert {line["event"] for line in logged} == {"pgvector_graphs_not_made"}
        assert "may not make indexes" in logged[0]["problem"]
    finally:
        store.close()
        with connect(postgres_url, statement_timeout_ms=0) as connection:
            connection.execute("DROP OWNED BY rows_only")
            connection.execute("DROP ROLE rows_only")
