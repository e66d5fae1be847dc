"""Predicts how much each example would help an engine with a request, by one ONNX model with a deadline.

The model's inputs are named features and embeddings; it takes a tenth of a millisecond and states in its own metadata what
it was made for (router.examples.scorer_artifact). Blocks: for the executor's threads. The scorer does not choose examples
(router.examples.combiner does) and knows no tenant.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from router.embedding.onnx_session import OnnxSession, SessionBusy
from router.examples.features import NAMES, VERSION, Features, RequestView, most_help, vector_rows
from router.examples.scorer_artifact import EFFECTS, OUTPUTS, Declared, WrongArtifact, check_ports, declared
from router.examples.set_quality import EPSILON
from router.plan import Candidate
from store.records import Example

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]


_KEPT_ABOVE = 0.01


class ScorerError(Exception):
    """There are no scores for this request now. The request can be answered without them."""


class ScorerLate(ScorerError):
    """The deadline passed, or the scorer is closed."""


class ScorerBroken(ScorerError):
    """The model is missing, does not fit, or returns values that are no qualities."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The predictions for one request."""

    gains: Floats
    """Expected quality with each example alone, less quality without; (candidates,), -1..1."""
    quality_with: Floats
    """(candidates,), 0..1."""
    quality_alone: float
    """0..1."""
    features: Floats
    """(candidates, router.examples.features.NAMES): logged with the decision, and so trained on."""
    scorer: str
    """Version of the model."""
    effects: list[tuple[float, float]] = field(default_factory=list)
    """Per candidate, the shares mended and spoilt (router.plan.Candidate.effect); for a model that does not distinguish
    them, all gain is mended and nothing is spoilt."""


class _Session(OnnxSession):
    """A session that also reads what its model declares, and runs it on the caller's thread."""

    closed = False

    def here(self, feeds: dict[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Runs the model on the caller's thread. Any number of threads may do so at once: onnxruntime allows it."""
        if self.closed:
            raise SessionBusy(f"{self.name}: the session is closed")
        return self._infer(feeds)

    def close(self) -> None:
        self.closed = True
        super().close()

    @property
    def metadata(self) -> dict[str, str]:
        return dict(self._session.get_modelmeta().custom_metadata_map)

    @property
    def outputs(self) -> list[str]:
        return [port.name for port in self._session.get_outputs()]


class Scorer:
    """One opened model. Thread-safe.

    The model runs on the calling thread, since it takes less time than a hop to another thread. So its deadline is
    checked afterwards.
    """

    def __init__(
        self,
        session: _Session,
        said: Declared,
        features: Features,
        *,
        version: str,
        dimensions: int,
        deadline_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Use `open`, which checks that these belong together."""
        self.version = version
        self.declared = said
        self._session = session
        self._features = features
        self._deadline_s = deadline_s
        self._clock = clock
        self._dimensions = dimensions
        self._places = [session.outputs.index(name) for name in OUTPUTS]
        told = set(EFFECTS) <= set(session.outputs)
        self._effect_places = [session.outputs.index(name) for name in EFFECTS] if told else []
        self._inputs = session.inputs

    @classmethod
    def open(
        cls,
        model: Path,
        *,
        version: str,
        dimensions: int,
        features: Features,
        deadline_s: float = 0.005,
        embedding_version: str = "",
        clock: Callable[[], float] = time.time,
    ) -> Scorer:
        """Loads `model` (a few milliseconds), checks what it declares, and runs it once.

        `version` names it in logs. `dimensions` and `embedding_version` are the embedder's: a model trained on other
        embeddings is refused. `deadline_s`: scores that took longer are discarded as late. `clock` returns seconds since
        1970, for the age of examples. Raises ScorerBroken with the reason.
        """
        try:
            session = _Session(model, name="scorer")
        except Exception as unreadable:
            # onnxruntime raises a dozen exception types for a file that is absent, truncated, or no model at all.
            raise ScorerBroken(f"scorer {version}: {model} could not be loaded: {unreadable}") from unreadable
        try:
            said = declared(session.metadata)
            check_ports(list(session.inputs), session.outputs)
            _check(said, session, dimensions, embedding_version)
            scorer = cls(
                session,
                said,
                features,
                version=version,
                dimensions=dimensions,
                deadline_s=deadline_s,
                clock=clock,
            )
            scorer._warm_up()
        except WrongArtifact as wrong:
            session.close()
            raise ScorerBroken(f"scorer {version}: {model}: {wrong}") from wrong
        except BaseException:
            session.close()
            raise
        return scorer

    def score(self, request: RequestView, candidates: Sequence[Candidate]) -> Scores:
        """Scores for `candidates`, in their order; blocks for a fraction of a millisecond.

        Without candidates there is still `quality_alone`. Raises ScorerLate, ScorerBroken.
        """
        return self._score(request, candidates, self._clock(), self._deadline_s)

    def close(self) -> None:
        """Closes the model; later calls of `score` raise ScorerLate."""
        self._session.close()

    def _score(
        self, request: RequestView, candidates: Sequence[Candidate], now_s: float, deadline_s: float | None
    ) -> Scores:
        scalars, feeds = self._rows(request, candidates, now_s)
        began = time.perf_counter()
        outputs = self._run(feeds)
        if deadline_s is not None and time.perf_counter() - began > deadline_s:
            raise ScorerLate(f"scorer {self.version}: no scores within {deadline_s * 1000:g} ms")
        try:
            quality_with, quality_alone = self._qualities(outputs, len(candidates))
            effects = self._effects(outputs, len(candidates))
        except (ValueError, IndexError, TypeError) as wrong:
            raise ScorerBroken(f"scorer {self.version}: {wrong}") from wrong
        gains = quality_with - quality_alone
        if effects is None:
            to_mend = max(EPSILON, 1.0 - quality_alone)
            effects = [(gain / to_mend if gain > 0.0 else 0.0, 0.0) for gain in gains.tolist()]
        for place, most in most_help(scalars).items():
            helps, harms = effects[place]
            # Above the limit they keep their order.
            effects[place] = (min(helps, most + _KEPT_ABOVE * helps), harms)
        return Scores(gains, quality_with, quality_alone, scalars, self.version, effects=effects)

    def _run(self, feeds: dict[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        try:
            return self._session.here(feeds)
        except SessionBusy:
            raise ScorerLate(f"scorer {self.version}: it was closed") from None
        except Exception as failed:
            raise ScorerBroken(f"scorer {self.version}: {failed}") from failed

    def _rows(
        self, request: RequestView, candidates: Sequence[Candidate], now_s: float
    ) -> tuple[Floats, dict[str, npt.NDArray[Any]]]:
        """The features, and those inputs that the model takes."""
        try:
            answers = vector_rows([c.answer_vector for c in candidates] or [None], self._dimensions)
            scalars = self._features.rows(request, candidates, now_s, answers)
            # A model always gets at least one row: some return nothing at all for none, not even quality_alone.
            feeds = {"scalars": scalars if candidates else np.zeros((1, len(NAMES)), np.float32)}
            if "request" in self._inputs:
                feeds["request"] = np.asarray(request.vector, np.float32).reshape(1, self._dimensions)
            if "example_questions" in self._inputs:
                questions = [c.vector for c in candidates] or [None]
                feeds["example_questions"] = vector_rows(questions, self._dimensions)
            if "example_answers" in self._inputs:
                feeds["example_answers"] = answers
        except ValueError as wrong:
            raise ScorerBroken(f"scorer {self.version}: vectors of another size: {wrong}") from wrong
        return scalars, feeds

    def _qualities(self, outputs: list[npt.NDArray[Any]], count: int) -> tuple[Floats, float]:
        """With each candidate and alone, all within 0..1. Raises ValueError for anything else."""
        # Lists, not arrays: for so few numbers a single array operation costs more than all of them.
        found: list[list[float]] = [outputs[place].reshape(-1).tolist() for place in self._places]
        shown = max(1, count)
        with_, alone = found
        if len(with_) != shown or len(alone) not in (1, shown):
            raise ValueError(f"it gave {len(with_)} and {len(alone)} qualities for {shown} examples")
        # NaN fails every comparison.
        if outside := [quality for quality in (*with_, *alone) if not 0.0 <= quality <= 1.0]:
            for quality in outside:
                # Slightly outside 0..1 is rounding.
                if not -0.001 < quality < 1.001:
                    raise ValueError(f"it gave {quality:g}, which is no quality, 0 to 1")
            with_ = [min(1.0, max(0.0, quality)) for quality in with_]
        return np.array(with_[:count], np.float32), min(1.0, max(0.0, sum(alone) / len(alone)))

    def _effects(self, outputs: list[npt.NDArray[Any]], count: int) -> list[tuple[float, float]] | None:
        """Shares mended and spoilt by each; None for a model that does not give them. Raises ValueError for anything
        else."""
        if not self._effect_places:
            return None
        helps, harms = [outputs[place].reshape(-1).tolist() for place in self._effect_places]
        whole = sum(helps) + sum(harms)
        # NaN is not equal to itself, and would go unnoticed in the minimum and the maximum.
        if whole != whole or min(min(helps), min(harms)) < 0.0 or max(max(helps), max(harms)) > 1.0:
            raise ValueError("it gave effects that are no shares, 0 to 1")
        return list(zip(helps[:count], harms[:count], strict=True))

    def _warm_up(self) -> None:
        """Runs two rows through the whole path without a deadline, so that a bad model fails now."""
        example = Example(0, 0, "", "", "warm", "warm", "", 0.0)
        request = RequestView("warm", np.zeros(self._dimensions, np.float32))
        self._score(request, [Candidate(example, 0.0)] * 2, 0.0, None)


def _check(said: Declared, session: _Session, dimensions: int, embedding_version: str) -> None:
    """Raises WrongArtifact unless the model was made for these features and these embeddings."""
    if said.features_version != VERSION or said.features_names != NAMES:
        raise WrongArtifact(
            f"it was made for features version {said.features_version!r} ({len(said.features_names)} scalars), "
            f"not for {VERSION!r} ({len(NAMES)})"
        )
    if said.dimensions not in (0, dimensions):
        raise WrongArtifact(f"it takes embeddings of {said.dimensions} dimensions, not of {dimensions}")
    if said.embedding_version and embedding_version and said.embedding_version != embedding_version:
        raise WrongArtifact(f"it was trained on embeddings {said.embedding_version}, not {embedding_version}")
    for name, width in (("request", dimensions), ("scalars", len(NAMES))):
        shape = session.inputs.get(name)
        if shape and isinstance(shape[-1], int) and shape[-1] != width:
            raise WrongArtifact(f"its input {name!r} has {shape[-1]} columns instead of {width}")
