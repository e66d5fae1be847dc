"""Behind a cross-encoder stands the fast scorer that it came after, if that can still be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.learning.scorer_lineage import features_behind, is_cross_encoder
from store.learned.artifacts import Artifacts
from store.records import ArtifactRecord
from store.sqlite.database import Database
from tests.router.examples.scoring import cross_encoder_model, features_model


@pytest.fixture
def artifacts(tmp_path: Path) -> Iterator[Artifacts]:
    db = Database.open(tmp_path / "understudy.db")
    yield Artifacts(db, tmp_path / "artifacts")
    db.close()


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return features_model(tmp_path_factory.mktemp("fast") / "m.onnx").read_bytes()


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return cross_encoder_model(tmp_path_factory.mktemp("slow") / "m.onnx").read_bytes()


def published(
    artifacts: Artifacts, data: bytes, behind: ArtifactRecord | None = None, tenant: str = "t"
) -> ArtifactRecord:
    parent = behind.id if behind else None
    return artifacts.publish("scorer", tenant, "m", data, metrics={}, parent=parent)


def test_the_two_signatures_are_told_apart(fast: bytes, slow: bytes) -> None:
    assert is_cross_encoder(slow)
    assert not is_cross_encoder(fast)


def test_the_nearest_fast_scorer_is_found_and_a_fast_one_stands_behind_itself(
    artifacts: Artifacts, fast: bytes, slow: bytes
) -> None:
    first = published(artifacts, fast)
    second = published(artifacts, slow, published(artifacts, slow, first))
    assert (found := features_behind(artifacts, second)) is not None and found.id == first.id
    assert (found := features_behind(artifacts, first)) is not None and found.id == first.id
    assert features_behind(artifacts, None) is None
    assert features_behind(artifacts, published(artifacts, slow)) is None


def test_one_that_is_damaged_or_another_tenants_is_passed_over(
    artifacts: Artifacts, fast: bytes, slow: bytes
) -> None:
    oldest = published(artifacts, fast)
    damaged = published(artifacts, fast + b"\0", oldest)
    artifacts.path(damaged).write_bytes(b"")
    found = features_behind(artifacts, published(artifacts, slow, damaged))
    assert found is not None and found.id == oldest.id
    assert features_behind(artifacts, published(artifacts, slow, oldest, "another")) is None
    operators = published(artifacts, fast, tenant="")
    assert features_behind(artifacts, published(artifacts, slow, operators)) is not None
