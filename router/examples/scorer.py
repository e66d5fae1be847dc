"""Predicts the worth of each example for a request, by one ONNX model with a deadline.

The model's input are named features; it takes some tens of microseconds and states in its own metadata what it was made
for, and how the worths of a set add up (router.examples.set_quality). Blocks: for the executor's threads. The scorer does
not choose examples (router.examples.combiner does) and knows no tenant.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from router.embedding.onnx_session import OnnxSession, SessionBusy
from router.examples.features import NAMES, VERSION, Features, RequestView
from router.examples.set_quality import UNLEARNT, SetQuality, coefficients
from router.plan import Candidate

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

_FORMAT = "2"
_PREFIX = "understudy.scorer."
_ROUNDING = 0.001


class ScorerError(Exception):
    """There are no scores for this request now. The request can be answered without them."""


class ScorerLate(ScorerError):
    """The deadline passed, or the scorer is closed."""


class ScorerBroken(ScorerError):
    """The model is missing, does not fit, or returns values that are no worths."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The model's declaration of itself, as ONNX metadata."""

    features_version: str = VERSION
    features_names: tuple[str, ...] = NAMES
    embedding_version: str = ""
    """Version of the embeddings it was trained on; empty: any."""
    prior: bool = False
    """True if it is the untrained prior."""
    qualities: Mapping[str, SetQuality] = field(default_factory=dict)
    """By scope, "" for any other: how worths of a set add up."""

    def metadata(self) -> dict[str, str]:
        """As ONNX metadata_props."""
        numbers = {
            scope: [q.alone, q.one, q.vote, q.displaced, q.each] for scope, q in self.qualities.items()
        }
        values = {
            "format": _FORMAT,
            "features_version": self.features_version,
            "features_names": json.dumps(self.features_names),
            "embedding_version": self.embedding_version,
            "prior": str(self.prior).lower(),
            "qualities": json.dumps(numbers, sort_keys=True),
        }
        return {_PREFIX + name: value for name, value in values.items()}

    @classmethod
    def read(cls, metadata: Mapping[str, str]) -> Declared:
        """Reads what `metadata` returned. Raises ValueError with the reason."""
        said = {
            name.removeprefix(_PREFIX): value for name, value in metadata.items() if name.startswith(_PREFIX)
        }
        if said.get("format") != _FORMAT:
            raise ValueError(
                f"it declares scorer format {said.get('format')!r}, this version reads {_FORMAT!r}"
            )
        return cls(
            said.get("features_version", ""),
            tuple(json.loads(said.get("features_names", "[]"))),
            said.get("embedding_version", ""),
            said.get("prior") == "true",
            {scope: coefficients(n) for scope, n in json.loads(said.get("qualities", "{}")).items()},
        )


class ScorerModel(OnnxSession):
    """An opened model: features in, worths out, on the caller's thread, of which there may be any number at once."""

    closed = False

    def __init__(self, path: Path) -> None:
        """Raises ScorerBroken."""
        try:
            super().__init__(path, name="scorer")
        except Exception as unreadable:
            # onnxruntime raises a dozen exception types for a file that is absent, truncated, or no model at all.
            raise ScorerBroken(f"{path} could not be loaded: {unreadable}") from unreadable
        try:
            self.declared = Declared.read(dict(self._session.get_modelmeta().custom_metadata_map))
            _check(self.declared, list(self.inputs))
            (self._input,) = self.inputs
            self.worths(np.zeros((2, len(NAMES)), np.float32))
        except (ScorerBroken, ValueError, TypeError, AttributeError) as wrong:
            self.close()
            raise ScorerBroken(f"{path}: {wrong}") from wrong

    def worths(self, features: Floats) -> list[float]:
        """The worth of each row, 0 to 1. Raises ScorerLate, ScorerBroken."""
        if not len(features):
            return []
        if self.closed:
            raise ScorerLate("it was closed")
        try:
            outputs: list[npt.NDArray[Any]] = self._infer({self._input: features})
            # A classifier's last output is a column per class, of which the second is that it helps.
            found: list[float] = outputs[-1].reshape(len(features), -1)[:, -1].tolist()
        except SessionBusy:
            raise ScorerLate("it was closed") from None
        except Exception as failed:
            raise ScorerBroken(str(failed)) from failed
        # NaN fails every comparison.
        if not all(-_ROUNDING < worth < 1.0 + _ROUNDING for worth in found):
            raise ScorerBroken(f"it gave worths {found}, outside 0 to 1")
        return [min(1.0, max(0.0, worth)) for worth in found]

    def quality(self, scope: str = "") -> SetQuality:
        """Return how worths of a set add up in this scope."""
        learnt = self.declared.qualities
        return learnt.get(scope) or learnt.get("") or UNLEARNT

    def close(self) -> None:
        self.closed = True
        super().close()


@dataclass(frozen=True, slots=True)
class Scores:
    """The predictions for one request."""

    worths: list[float]
    """The share of what is needed that each candidate holds, 0 to 1."""
    features: Floats
    """(candidates, router.examples.features.NAMES): logged with the decision, and so trained on."""
    scorer: str
    """Version of the model."""
    quality: SetQuality
    """The coefficients by which worths of a set add up."""


class Scorer:
    """One opened model with the features. Thread-safe.

    The model runs on the calling thread, since it takes less time than a hop to another thread. So its deadline is
    checked afterwards.
    """

    def __init__(
        self,
        model: ScorerModel,
        features: Features,
        *,
        version: str,
        deadline_s: float = 0.005,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`version` names it in logs. `deadline_s`: scores that took longer are discarded as late. `clock` returns seconds
        since 1970, for the age of examples."""
        self.version = version
        self.declared = model.declared
        self._model = model
        self._features = features
        self._deadline_s = deadline_s
        self._clock = clock

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        version: str,
        features: Features,
        deadline_s: float = 0.005,
        embedding_version: str = "",
        clock: Callable[[], float] = time.time,
    ) -> Scorer:
        """Loads a model (a few milliseconds) and runs it once. Raises ScorerBroken with the reason.

        `embedding_version` is the embedder's: a model trained on other embeddings is refused.
        """
        try:
            model = ScorerModel(path)
        except ScorerBroken as broken:
            raise ScorerBroken(f"scorer {version}: {broken}") from broken
        made_for = model.declared.embedding_version
        if made_for and embedding_version and made_for != embedding_version:
            model.close()
            raise ScorerBroken(
                f"scorer {version}: it was trained on embeddings {made_for}, not {embedding_version}"
            )
        return cls(model, features, version=version, deadline_s=deadline_s, clock=clock)

    def score(self, request: RequestView, candidates: Sequence[Candidate], scope: str = "") -> Scores:
        """Scores for `candidates`, in their order; blocks for a fraction of a millisecond.

        Raises ScorerLate, ScorerBroken.
        """
        began = time.perf_counter()
        try:
            features = self._features.rows(request, candidates, self._clock())
            worths = self._model.worths(features)
        except ValueError as wrong:
            raise ScorerBroken(f"scorer {self.version}: vectors of another size: {wrong}") from wrong
        except ScorerError as error:
            raise type(error)(f"scorer {self.version}: {error}") from error
        if time.perf_counter() - began > self._deadline_s:
            raise ScorerLate(f"scorer {self.version}: no scores within {self._deadline_s * 1000:g} ms")
        return Scores(worths, features, self.version, self._model.quality(scope))

    def close(self) -> None:
        """Closes the model; later calls of `score` raise ScorerLate."""
        self._model.close()


def _check(said: Declared, inputs: Sequence[str]) -> None:
    """Raises ValueError unless the model was made for these features."""
    if (said.features_version, said.features_names) != (VERSION, NAMES):
        raise ValueError(
            f"it was made for features version {said.features_version!r} ({len(said.features_names)} of them), "
            f"not for {VERSION!r} ({len(NAMES)})"
        )
    if len(inputs) != 1:
        raise ValueError(f"it takes {', '.join(inputs)}: a scorer takes its features alone")
