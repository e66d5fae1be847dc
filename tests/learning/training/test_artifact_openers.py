"""Bytes that a worker is to decide with: what does not fit this embedder, or is not what it must be, is refused by name."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from learning.training import artifact_openers
from learning.training.artifact_follower import ArtifactFollower
from learning.training.artifact_openers import ArtifactOpeners
from router.choosing.bandit import BanditBroken, BanditOutdated
from router.choosing.bandit_vw import BanditSettings, VowpalBandit
from router.examples.features import Features
from router.examples.scorer import Declared, Scorer, ScorerBroken
from store.learned.artifacts import ArtifactBroken, Artifacts
from store.records import ArtifactRecord
from store.sqlite.database import Database
from tests.router.examples.scoring import (
    DIMENSIONS,
    candidates,
    features_model,
    former_metadata,
    rarity,
    request,
)


@pytest.fixture
def artifacts(tmp_path: Path) -> Iterator[Artifacts]:
    db = Database.open(tmp_path / "understudy.db")
    yield Artifacts(db, tmp_path / "artifacts")
    db.close()


def openers(artifacts: Artifacts, folder: Path, **changes: Any) -> ArtifactOpeners:
    settings: dict[str, Any] = {
        "embedding_version": "mini@1",
        "deadline_s": 10.0,
        "models_folder": folder / "models",
    }
    return ArtifactOpeners(artifacts, Features(rarity()), **(settings | changes))


def published(artifacts: Artifacts, kind: str, data: bytes) -> ArtifactRecord:
    return artifacts.publish(kind, "t", "m", data, metrics={})


def test_the_prior_is_written_once_and_scores(
    artifacts: Artifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = openers(artifacts, tmp_path).prior()
    first.close()
    monkeypatch.setattr(subprocess, "run", None)
    again = openers(artifacts, tmp_path).prior()
    try:
        assert again.version == "prior"
        assert len(again.score(request(), candidates()).worths) == 4
    finally:
        again.close()
    assert len(list((tmp_path / "models").iterdir())) == 1, "no temporary file stays"


@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_a_prior_that_cannot_be_written_is_a_broken_scorer_and_leaves_nothing_behind(
    artifacts: Artifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    script = "import time; time.sleep(60)" if how == "hangs" else "raise SystemExit('no room')"
    monkeypatch.setattr(artifact_openers, "_WRITE_PRIOR", script)
    monkeypatch.setattr(artifact_openers, "_BUILD_S", 0.2 if how == "hangs" else 60.0)
    with pytest.raises(ScorerBroken, match="within" if how == "hangs" else "no room"):
        openers(artifacts, tmp_path).prior()
    assert not list((tmp_path / "models").iterdir())


def test_a_scorer_opens_under_the_name_of_its_version(artifacts: Artifacts, tmp_path: Path) -> None:
    model = features_model(tmp_path / "m.onnx").read_bytes()
    record = published(artifacts, "scorer", model)
    scorer = openers(artifacts, tmp_path).scorer(record)
    try:
        assert isinstance(scorer, Scorer)
        assert scorer.score(request(), candidates()).scorer == f"scorer-{record.id}"
    finally:
        scorer.close()


def test_a_scorer_of_another_embedder_is_refused(artifacts: Artifacts, tmp_path: Path) -> None:
    declared = Declared(embedding_version="another@1").metadata()
    changed = features_model(tmp_path / "a.onnx", metadata=declared)
    record = published(artifacts, "scorer", changed.read_bytes())
    with pytest.raises(ScorerBroken, match="another@1"):
        openers(artifacts, tmp_path).scorer(record)


def test_a_damaged_scorer_is_never_given_to_onnxruntime(artifacts: Artifacts, tmp_path: Path) -> None:
    record = published(artifacts, "scorer", features_model(tmp_path / "m.onnx").read_bytes())
    artifacts.path(record).write_bytes(artifacts.path(record).read_bytes() + b"\0")
    with pytest.raises(ArtifactBroken):
        openers(artifacts, tmp_path).scorer(record)


def test_a_scorer_of_a_format_of_earlier_versions_is_counted_and_gone_without(
    artifacts: Artifacts, tmp_path: Path
) -> None:
    former = features_model(tmp_path / "former.onnx", metadata=former_metadata())
    published(artifacts, "scorer", former.read_bytes())
    opener, broken = openers(artifacts, tmp_path), list[str]()
    follower = ArtifactFollower(artifacts, opener, prior=opener.prior(), broken=broken.append)
    follower.start()
    try:
        assert follower.ready("t", "m", timeout_s=60)
        scorer = follower.of("t", "m").scorer
        assert scorer is not None and scorer.version == "prior"
        assert len(scorer.score(request(), candidates()).worths) == 4
        assert broken == ["scorer"]
    finally:
        follower.stop()


def test_a_bandit_of_another_embedder_is_refused(artifacts: Artifacts, tmp_path: Path) -> None:
    made = {
        version: VowpalBandit(BanditSettings(dimensions=DIMENSIONS, embedding_version=version)).save()
        for version in ("mini@1", "", "another@1")
    }
    opener = openers(artifacts, tmp_path)
    for version in ("mini@1", ""):
        assert opener.bandit(published(artifacts, "bandit", made[version])).learned == 0
    with pytest.raises(BanditOutdated, match="another@1"):
        opener.bandit(published(artifacts, "bandit", made["another@1"]))
    with pytest.raises(BanditBroken):
        opener.bandit(published(artifacts, "bandit", made["mini@1"][:-20]))
