"""A worker decides with what the learner published, its own tenant's and nobody else's, and never waits for any of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from learning.training.artifact_follower import ArtifactFollower
from router.choosing.bandit import Bandit
from router.examples.scorer import Scorer
from store.learned.artifacts import Artifacts
from store.records import ArtifactRecord
from store.sqlite.database import Database
from tests.patience import eventually


@dataclass
class Thing:
    """What a version became; remembers being closed."""

    data: bytes
    closed: int = 0

    def close(self) -> None:
        self.closed += 1


@dataclass
class Openers:
    """Reads what was published, checksums and all; `b"bad..."` is what no reader makes sense of."""

    artifacts: Artifacts
    opened: list[Thing] = field(default_factory=list)
    wait: threading.Event | None = None

    def scorer(self, record: ArtifactRecord) -> Scorer:
        if self.wait is not None:
            self.wait.wait(60)
        data = self.artifacts.read(record)
        if data.startswith(b"bad"):
            raise KeyError(data)
        thing = Thing(data)
        self.opened.append(thing)
        return cast(Scorer, thing)

    def bandit(self, record: ArtifactRecord) -> Bandit:
        return cast(Bandit, Thing(self.artifacts.read(record)))

    def alive(self) -> list[bytes]:
        return [thing.data for thing in self.opened if not thing.closed]


@dataclass
class Caps:
    unproven: float = 0.02
    caps: dict[str, float] = field(default_factory=dict)

    def cap(self, tenant: str, model: str) -> float:
        return self.caps.get(tenant, self.unproven)


@dataclass
class Follower:
    """A running one, and what is around it."""

    it: ArtifactFollower
    artifacts: Artifacts
    openers: Openers
    prior: Thing
    broken: Counter[str]

    def scorer(self, tenant: str, model: str = "m") -> bytes:
        """The bytes that this tenant's requests are scored with."""
        assert self.it.ready(tenant, model)
        return cast(Thing, self.it.of(tenant, model).scorer).data

    def publish(self, data: bytes, tenant: str, model: str = "m", kind: str = "scorer") -> ArtifactRecord:
        return self.artifacts.publish(kind, tenant, model, data, metrics={})


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "understudy.db")
    yield database
    database.close()


@contextmanager
def following(db: Database, **more: Any) -> Iterator[Follower]:
    artifacts = Artifacts(db, db.path.parent / "artifacts")
    openers, prior, broken = Openers(artifacts), Thing(b"prior"), Counter[str]()
    it = ArtifactFollower(
        artifacts,
        openers,
        prior=cast(Scorer, prior),
        broken=lambda kind: broken.update([kind]),
        look_every_s=0.02,
        **more,
    )
    it.start()
    try:
        yield Follower(it, artifacts, openers, prior, broken)
    finally:
        it.stop()


@pytest.fixture
def follower(db: Database) -> Iterator[Follower]:
    with following(db) as made:
        yield made


# ---- whose is used


def test_before_anything_was_learnt_the_prior_scores_and_no_bandit_decides(follower: Follower) -> None:
    assert follower.scorer("a") == b"prior"
    learned = follower.it.of("a", "m")
    assert (learned.bandit, learned.version, learned.offload_cap) == (None, "prior", 1.0)


def test_a_tenant_uses_its_own_then_the_operators_for_the_model_then_for_any(follower: Follower) -> None:
    follower.publish(b"any", "", "")
    assert follower.scorer("a") == b"any"
    follower.publish(b"model's", "")
    assert follower.scorer("a") == b"model's"
    follower.publish(b"own", "a")
    assert follower.scorer("a") == b"own"
    assert follower.scorer("a", "other model") == b"any"


def test_another_tenants_version_is_never_used(follower: Follower) -> None:
    for kind, data in (("scorer", b"theirs"), ("bandit", b"theirs")):
        follower.publish(data, "b", kind=kind)
    assert follower.scorer("b") == b"theirs"
    assert follower.scorer("a") == b"prior"
    assert follower.it.of("a", "m").bandit is None and follower.it.of("a", "m").version == "prior"


def test_the_log_names_every_version_in_use(follower: Follower) -> None:
    scorer, bandit = follower.publish(b"s", "a"), follower.publish(b"b", "a", kind="bandit")
    assert follower.scorer("a") == b"s"
    assert follower.it.of("a", "m").version == f"bandit-{bandit.id}+scorer-{scorer.id}"


def test_the_models_of_a_served_model_are_its_own(follower: Follower) -> None:
    follower.publish(b"own", "a", "m")
    assert follower.scorer("a") == b"own"
    assert follower.it.of("a", "n").scorer is not follower.it.of("a", "m").scorer


# ---- news


def test_news_are_in_use_without_anybody_asking_for_them(follower: Follower) -> None:
    follower.publish(b"one", "a")
    assert follower.scorer("a") == b"one"
    follower.publish(b"two", "a")
    assert eventually(lambda: cast(Thing, follower.it.of("a", "m").scorer).data == b"two")
    assert eventually(lambda: follower.openers.alive() == [b"two"])


def test_a_rollback_and_a_deletion_are_followed(follower: Follower) -> None:
    follower.publish(b"one", "a")
    follower.publish(b"two", "a")
    assert follower.scorer("a") == b"two"
    follower.artifacts.rollback("scorer", "a", "m")
    assert follower.scorer("a") == b"one"
    follower.artifacts.forget_tenant("a")
    assert follower.scorer("a") == b"prior"
    assert eventually(lambda: not follower.openers.alive())


def test_a_version_that_was_rejected_is_never_used(follower: Follower) -> None:
    follower.publish(b"good", "a")
    follower.artifacts.publish("scorer", "a", "m", b"worse", metrics={}, state="rejected")
    assert follower.scorer("a") == b"good"


def test_a_request_is_never_kept_waiting_for_a_version(db: Database) -> None:
    with following(db) as follower:
        hang = follower.openers.wait = threading.Event()
        follower.publish(b"slow", "a")
        try:
            # While the file is being read, for as long as that takes, the prior scores.
            for _ in range(100):
                assert cast(Thing, follower.it.of("a", "m").scorer).data == b"prior"
        finally:
            hang.set()
        assert follower.scorer("a") == b"slow"


# ---- what is broken


@pytest.mark.parametrize("how", ["missing", "damaged", "nonsense"])
def test_a_broken_version_is_counted_and_the_next_best_used(follower: Follower, how: str) -> None:
    follower.publish(b"operator's", "")
    record = follower.publish(b"bad one" if how == "nonsense" else b"own", "a")
    if how == "missing":
        follower.artifacts.path(record).unlink()
    elif how == "damaged":
        follower.artifacts.path(record).write_bytes(b"owm")
    assert follower.scorer("a") == b"operator's"
    assert follower.broken == {"scorer": 1}, "counted once, not at every look"
    follower.publish(b"mended", "a")
    assert follower.scorer("a") == b"mended"


def test_a_tenants_broken_version_keeps_nobody_from_theirs(follower: Follower) -> None:
    follower.publish(b"bad", "a")
    follower.publish(b"fine", "b")
    assert (follower.scorer("a"), follower.scorer("b")) == (b"prior", b"fine")
    assert follower.broken == {"scorer": 1}


def test_without_even_a_prior_nothing_scores(db: Database) -> None:
    artifacts = Artifacts(db, db.path.parent / "artifacts")
    follower = ArtifactFollower(artifacts, Openers(artifacts), prior=None)
    follower.start()
    try:
        assert follower.ready("a", "m")
        assert (follower.of("a", "m").scorer, follower.of("a", "m").version) == (None, "none")
    finally:
        follower.stop()


# ---- what is held


def test_what_tenants_share_is_opened_once_and_closed_once_nobody_uses_it(follower: Follower) -> None:
    follower.publish(b"shared", "")
    for tenant in "abc":
        assert follower.scorer(tenant) == b"shared"
    assert [thing.data for thing in follower.openers.opened] == [b"shared"]
    follower.publish(b"own", "a")
    assert follower.scorer("a") == b"own"
    assert follower.scorer("b") == b"shared" and not follower.openers.opened[0].closed
    for tenant in "bc":
        follower.publish(b"own too", tenant)
        assert follower.scorer(tenant) == b"own too"
    assert eventually(lambda: follower.openers.opened[0].closed == 1)


def test_stopping_closes_everything_once(db: Database) -> None:
    with following(db) as follower:
        follower.publish(b"one", "a")
        assert follower.scorer("a") == b"one"
        follower.publish(b"two", "a")
        assert follower.scorer("a") == b"two"
    assert [thing.closed for thing in (*follower.openers.opened, follower.prior)] == [1, 1, 1]


# ---- the quality floor


def test_what_may_be_offloaded_is_followed_tenant_by_tenant(db: Database) -> None:
    caps = Caps()
    with following(db, floors=caps) as follower:
        assert follower.it.of("a", "m").offload_cap == 0.02, "of a tenant never seen nothing is proven"
        assert follower.it.ready("a", "m") and follower.it.ready("b", "m")
        caps.caps["a"] = 0.5
        assert eventually(lambda: follower.it.of("a", "m").offload_cap == 0.5)
        assert follower.it.of("b", "m").offload_cap == 0.02
        follower.publish(b"news", "a")
        assert follower.scorer("a") == b"news"
        assert follower.it.of("a", "m").offload_cap == 0.5, "news of another kind change nothing of it"
