"""Workers hold the latest students open, pass over what is broken, and never wait for one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from learning.tasks.follower import StudentFollower
from learning.tasks.training import train
from router.tasks.task import Task
from store import Store
from store.records import ArtifactRecord
from tests.learning.tasks.customers import labelled
from tests.patience import wait_for

TASK = Task("intent", "acme", "gpt-4o")


@cache
def student(seed: int) -> bytes:
    return train(labelled()[: 60 + seed], seed=seed, kinds=("logistic",), embedding_version="now").data


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def counted() -> list[str]:
    return []


@pytest.fixture
def follower(store: Store, counted: list[str]) -> Iterator[StudentFollower]:
    made = StudentFollower(store.artifacts, embedding_version="now", broken=counted.append, look_every_s=0.01)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def published(store: Store, data: bytes, tenant: str = "acme") -> ArtifactRecord:
    return store.artifacts.publish("student", tenant, TASK.slot, data, metrics={})


def ids(follower: StudentFollower) -> list[int]:
    return [version for version, _ in follower.of(TASK)]


def test_the_last_four_versions_are_open_the_one_in_use_first(
    store: Store, follower: StudentFollower
) -> None:
    assert follower.of(TASK) == ()
    versions = [published(store, student(n)).id for n in range(5)]
    assert follower.ready(TASK.tenant, TASK.slot) and ids(follower) == versions[:0:-1]
    store.artifacts.rollback("student", "acme", TASK.slot)
    assert follower.ready(TASK.tenant, TASK.slot) and ids(follower) == versions[3::-1]


def test_a_broken_version_is_counted_once_and_the_next_best_is_used(
    store: Store, follower: StudentFollower, counted: list[str]
) -> None:
    good = published(store, student(0)).id
    published(store, b"no student")
    published(store, train(labelled()[:60], seed=9, kinds=("logistic",), embedding_version="then").data)
    gone = published(store, student(2))
    store.artifacts.path(gone).unlink()
    assert follower.ready(TASK.tenant, TASK.slot) and ids(follower) == [good]
    published(store, b"nor this")
    wait_for(lambda: len(counted) == 4, "four broken versions to be counted")
    assert follower.ready(TASK.tenant, TASK.slot) and ids(follower) == [good] and counted == ["student"] * 4


def test_another_tenants_students_are_not_ones_own(store: Store, follower: StudentFollower) -> None:
    published(store, student(0), tenant="globex")
    assert follower.ready(TASK.tenant, TASK.slot) and ids(follower) == []


def test_what_was_forgotten_is_not_held_on_to(store: Store, follower: StudentFollower) -> None:
    published(store, student(0))
    assert follower.ready(TASK.tenant, TASK.slot) and len(ids(follower)) == 1
    store.artifacts.forget_tenant("acme")
    wait_for(lambda: ids(follower) == [], "the follower to let go")


@pytest.mark.parametrize("harm", ["gone", "cut", "empty"])
def test_bytes_that_go_while_workers_hold_them_open_harm_nobody_and_a_fresh_start_takes_the_next_best(
    store: Store, follower: StudentFollower, counted: list[str], harm: str
) -> None:
    before, latest = published(store, student(0)), published(store, student(1))
    assert follower.ready(TASK.tenant, TASK.slot) and ids(follower) == [latest.id, before.id]
    file = store.artifacts.path(latest)
    data = file.read_bytes()
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes(data[: len(data) // 2] if harm == "cut" else b"")
    row = labelled()[0]
    assert row.vector is not None
    # Who holds it open answers on, also when another version comes.
    for _, held in follower.of(TASK):
        assert held.predict(row.input, row.vector, 1).label
    newer = published(store, student(2))
    assert (
        follower.ready(TASK.tenant, TASK.slot)
        and ids(follower) == [newer.id, latest.id, before.id]
        and counted == []
    )
    store.artifacts.path(newer).unlink()
    fresh = StudentFollower(
        store.artifacts, embedding_version="now", broken=counted.append, look_every_s=0.01
    )
    fresh.start()
    try:
        assert fresh.ready(TASK.tenant, TASK.slot) and [version for version, _ in fresh.of(TASK)] == [
            before.id
        ]
        assert counted == ["student"] * 2
        assert fresh.of(TASK)[0][1].predict(row.input, row.vector, 1).label
    finally:
        fresh.stop()
