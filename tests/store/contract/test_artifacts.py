from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from store import Store
from store.learned.artifacts import Artifacts
from store.records import ArtifactRecord
from tests.store.contract.conftest import Opening


@pytest.fixture
def store(open_store: Opening) -> Store:
    return open_store(versions_kept=3)


@pytest.fixture
def artifacts(store: Store) -> Artifacts:
    return store.artifacts


def publish(
    artifacts: Artifacts, data: bytes, tenant: str = "a1", model: str = "m", **more: Any
) -> ArtifactRecord:
    return artifacts.publish(
        "bandit", tenant, model, data, metrics=more.pop("metrics", {"apgr": 0.7}), **more
    )


def files(artifacts: Artifacts) -> list[Path]:
    """All there are, by way of one that is in use."""
    (found, *_) = artifacts.versions()
    return list(artifacts.path(found).parent.iterdir())


def in_use(artifacts: Artifacts, tenant: str = "a1", model: str = "m") -> bytes | None:
    record = artifacts.active("bandit", tenant, model)
    return artifacts.read(record) if record is not None else None


def test_a_published_version_is_in_use_and_its_bytes_are_what_was_given(artifacts: Artifacts) -> None:
    first = publish(artifacts, b"one", note="first", metrics={"apgr": 0.5, "rows": 10})
    second = publish(artifacts, b"two", parent=first.id)
    assert (first.state, first.note, first.metrics) == ("active", "first", {"apgr": 0.5, "rows": 10})
    assert (second.parent, second.size_bytes) == (first.id, 3)
    assert artifacts.active("bandit", "a1", "m") == second
    assert artifacts.read(second) == b"two" and artifacts.read(first) == b"one"
    assert [r.state for r in artifacts.versions("bandit", "a1", "m")] == ["active", "retired"]
    assert artifacts.get(second.id) == second and artifacts.get(99) is None


def test_a_rejected_version_is_kept_and_never_in_use(artifacts: Artifacts) -> None:
    publish(artifacts, b"good")
    rejected = publish(artifacts, b"worse", state="rejected")
    assert rejected.state == "rejected" and in_use(artifacts) == b"good"
    assert artifacts.read(rejected) == b"worse"


def test_the_look_up_goes_from_ones_own_to_the_operators_and_never_to_another_tenants(
    artifacts: Artifacts,
) -> None:
    publish(artifacts, b"theirs", tenant="b2")
    assert artifacts.best("bandit", "a1", "m") is None
    for tenant, model, data in (("", "", b"any"), ("", "m", b"for m"), ("a1", "m", b"own")):
        publish(artifacts, data, tenant=tenant, model=model)
        best = artifacts.best("bandit", "a1", "m")
        assert best is not None and artifacts.read(best) == data
    other = artifacts.best("bandit", "a1", "m2")
    assert other is not None and artifacts.read(other) == b"any"
    assert artifacts.best("scorer", "a1", "m") is None


def test_rolling_back_goes_back_step_by_step_to_the_built_in(artifacts: Artifacts) -> None:
    for data in (b"one", b"two"):
        publish(artifacts, data)
    publish(artifacts, b"never", state="rejected")
    publish(artifacts, b"three")
    seen = []
    for _ in range(4):
        seen.append(in_use(artifacts))
        artifacts.rollback("bandit", "a1", "m")
    assert seen == [b"three", b"two", b"one", None]
    publish(artifacts, b"four")
    assert in_use(artifacts) == b"four"


def test_a_rollback_never_lands_on_what_was_only_kept(artifacts: Artifacts) -> None:
    publish(artifacts, b"one")
    artifacts.freeze("bandit", "a1", "m")
    publish(artifacts, b"kept only")
    artifacts.unfreeze("bandit", "a1", "m")
    publish(artifacts, b"three")
    back = artifacts.rollback("bandit", "a1", "m")
    assert back is not None and artifacts.read(back) == b"one"


def test_a_version_can_be_taken_into_use_again_by_its_id(artifacts: Artifacts) -> None:
    first, _ = publish(artifacts, b"one"), publish(artifacts, b"two")
    taken = artifacts.activate(first.id)
    assert taken is not None and taken.state == "active" and in_use(artifacts) == b"one"
    assert artifacts.activate(99) is None and in_use(artifacts) == b"one"


def test_a_frozen_slot_keeps_what_it_uses_and_says_so(artifacts: Artifacts) -> None:
    publish(artifacts, b"one")
    for _ in range(2):
        artifacts.freeze("bandit", "a1", "m")
    assert list(artifacts.frozen()) == [("bandit", "a1", "m")]
    assert publish(artifacts, b"two").state == "retired" and in_use(artifacts) == b"one"
    assert publish(artifacts, b"other", model="m2").state == "active"
    assert artifacts.unfreeze("bandit", "a1", "m") and not artifacts.unfreeze("bandit", "a1", "m")
    assert publish(artifacts, b"three").state == "active" and in_use(artifacts) == b"three"


def test_two_versions_alike_share_a_file_and_lose_it_only_together(artifacts: Artifacts) -> None:
    publish(artifacts, b"same")
    publish(artifacts, b"same", tenant="b2")
    for number in range(10):
        publish(artifacts, b"%d" % number if number != 9 else b"same")
    assert artifacts.forget_tenant("b2") == 1
    assert in_use(artifacts) == b"same"


def test_of_old_versions_only_as_many_stay_as_are_to_be_kept(artifacts: Artifacts) -> None:
    for number in range(10):
        publish(artifacts, b"served %d" % number)
        publish(artifacts, b"rejected %d" % number, state="rejected")
    kept = sorted(file.read_bytes() for file in files(artifacts))
    assert kept == [b"rejected 7", b"rejected 8", b"rejected 9", *(b"served %d" % n for n in (6, 7, 8, 9))]
    assert len(artifacts.versions()) == len(kept) and in_use(artifacts) == b"served 9"


def test_a_forgotten_tenant_leaves_no_version_and_no_file_and_the_others_keep_theirs(
    artifacts: Artifacts,
) -> None:
    for tenant in ("a1", "b2", ""):
        publish(artifacts, b"of " + tenant.encode(), tenant=tenant)
    artifacts.freeze("bandit", "a1", "m")
    orphan = artifacts.path(publish(artifacts, b"orphan"))
    assert artifacts.forget_tenant("a1") == 2
    assert not orphan.exists() and artifacts.frozen() == {}
    assert sorted(file.read_bytes() for file in files(artifacts)) == [b"of ", b"of b2"]
    with pytest.raises(ValueError, match="operator"):
        artifacts.forget_tenant("")


def test_nothing_but_a_known_kind_and_plain_metrics_is_published(artifacts: Artifacts) -> None:
    with pytest.raises(ValueError, match="kind"):
        artifacts.publish("teacher", "a1", "m", b"", metrics={})
    with pytest.raises(ValueError, match="JSON"):
        artifacts.publish("bandit", "a1", "m", b"", metrics={"what": object()})
    assert artifacts.versions() == []


def test_of_learners_that_publish_at_once_exactly_one_version_is_in_use(artifacts: Artifacts) -> None:
    threads = [
        threading.Thread(target=lambda n=n: [publish(artifacts, b"%d %d" % (n, k)) for k in range(5)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    states = [record.state for record in artifacts.versions()]
    assert states.count("active") == 1 and states[0] == "active"
    assert in_use(artifacts) is not None


def test_every_change_of_what_is_in_use_shows_in_the_generation_also_to_another_process(
    artifacts: Artifacts, open_store: Opening
) -> None:
    other = open_store().artifacts
    seen = [other.generation()]
    first = publish(artifacts, b"one")
    for change in (
        lambda: publish(artifacts, b"two"),
        lambda: artifacts.rollback("bandit", "a1", "m"),
        lambda: artifacts.activate(first.id),
        lambda: artifacts.forget_tenant("a1"),
    ):
        seen.append(other.generation())
        change()
    seen.append(other.generation())
    assert len(set(seen)) == len(seen)


def test_a_person_takes_what_is_in_use_out_of_use(artifacts: Artifacts) -> None:
    publish(artifacts, b"one")
    last = publish(artifacts, b"two")
    artifacts.freeze("bandit", "a1", "m")
    assert artifacts.retire("bandit", "a1", "m") and artifacts.active("bandit", "a1", "m") is None
    assert not artifacts.retire("bandit", "a1", "m")
    assert artifacts.activate(last.id) is not None and in_use(artifacts) == b"two"


def test_that_versions_went_with_a_tenant_is_known_and_whose_is_not(artifacts: Artifacts) -> None:
    assert artifacts.latest_deletion() is None
    artifacts.forget_tenant("a1")
    assert artifacts.latest_deletion() is None, "there was none"
    for data in (b"one", b"two"):
        publish(artifacts, data)
    artifacts.forget_tenant("a1")
    deleted = artifacts.latest_deletion()
    assert deleted is not None and deleted[1] == 2
