"""Opens published artifacts for use, checked against the embedder and the settings of this gateway."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from router.choosing.bandit import Bandit, BanditOutdated
from router.examples.features import VERSION, Features
from router.examples.scorer import Scorer, ScorerBroken
from store.learned.artifacts import Artifacts
from store.records import ArtifactRecord

_BUILD_S = 60.0
_WRITE_PRIOR = (
    "import sys; from router.examples.prior import prior_model; sys.stdout.buffer.write(prior_model())"
)


class ArtifactOpeners:
    """Opens scorers and bandits for one served model of a gateway with an embedder."""

    def __init__(
        self,
        artifacts: Artifacts,
        features: Features,
        *,
        embedding_version: str,
        deadline_s: float,
        models_folder: Path,
    ) -> None:
        """`models_folder`: where the prior scorer is stored once it is written."""
        self._artifacts = artifacts
        self._features = features
        self._embedding_version = embedding_version
        self._deadline_s = deadline_s
        self._models_folder = models_folder

    def prior(self) -> Scorer:
        """The scorer used before anything is trained; a child process writes it on first use. Raises ScorerBroken."""
        return self._opened(self._prior_model(), "prior")

    def scorer(self, record: ArtifactRecord) -> Scorer:
        """Opens a published scorer. Raises ArtifactBroken, ScorerBroken."""
        # Read for the checksum only: onnxruntime gets the path, so that the bytes are not held twice.
        self._artifacts.read(record)
        return self._opened(self._artifacts.path(record), f"scorer-{record.id}")

    def bandit(self, record: ArtifactRecord) -> Bandit:
        """Opens a published bandit. Raises ArtifactBroken, BanditError."""
        from router.choosing.bandit_vw import VowpalBandit

        bandit = VowpalBandit.load(self._artifacts.read(record))
        made_for = bandit.settings.embedding_version
        if made_for and made_for != self._embedding_version:
            raise BanditOutdated(f"it learnt from vectors of {made_for}, not of {self._embedding_version}")
        return bandit

    def _prior_model(self) -> Path:
        path = self._models_folder / f"scorer-prior-{VERSION}.onnx"
        if not path.exists():
            _write_prior(path)
        return path

    def _opened(self, path: Path, version: str) -> Scorer:
        return Scorer.open(
            path,
            version=version,
            features=self._features,
            deadline_s=self._deadline_s,
            embedding_version=self._embedding_version,
        )


def _write_prior(path: Path) -> None:
    """Writes the file completely or not at all. In a child process, since `onnx` takes 30 MB that a gateway should not
    hold."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        made = subprocess.run(
            [sys.executable, "-c", _WRITE_PRIOR], capture_output=True, timeout=_BUILD_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ScorerBroken(f"the prior scorer could not be written within {_BUILD_S:g} s") from None
    if made.returncode:
        raise ScorerBroken(f"the prior scorer could not be written: {made.stderr.decode()[-300:]}")
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(made.stdout)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
