"""What estimates the quality of two engines from outcomes: the gateway's own bandit, and what it is compared with.

Every estimator gets the same outcomes, and is asked about the requests that come next, all at once: between two trainings
nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.routing.data import Recorded
from learning.training.bandit import Row, TrainingKnobs, fresh_bandit
from router.choosing.bandit import Lesson, Scene
from router.choosing.bandit_vw import BanditSettings
from router.choosing.features import text_features
from router.choosing.linear import LEARNERS, MOST_ACTIONS, PASSES, usual_learner
from router.choosing.linear import Floats as Row32

Floats = npt.NDArray[np.float64]
Seen = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Known:
    """What an estimator expects of the requests asked about: [requests, 2], small and large."""

    quality: Floats
    deviation: Floats
    strangeness: Floats | None = None
    """[requests], of an estimator that tells."""


class Estimator(Protocol):
    """Made for one stream; `seen` [n, 2] says which outcomes are known."""

    def __call__(self, seen: Seen, asked: npt.NDArray[np.int64]) -> Known: ...


class PerEngine:
    """One regression per engine: `fitted(rows, qualities, asked)` gives means and their deviations."""

    def __init__(
        self,
        stream: Recorded,
        fitted: Callable[[npt.NDArray[np.int64], Floats, npt.NDArray[np.int64]], tuple[Floats, Floats]],
    ) -> None:
        self._stream = stream
        self._fitted = fitted

    def __call__(self, seen: Seen, asked: npt.NDArray[np.int64]) -> Known:
        found = np.zeros((2, len(asked), 2))
        for engine, before in enumerate((0.5, 1.0)):
            rows = np.flatnonzero(seen[:, engine])
            if len(rows) < 5:
                found[:, :, engine] = np.array([before, 0.5])[:, None]
                continue
            found[:, :, engine] = self._fitted(rows, self._stream.quality[rows, engine], asked)
        return Known(np.clip(found[0], 0.0, 1.0), found[1])


def nearest(stream: Recorded, k: int) -> Estimator:
    """The mean of the k nearest outcomes, per engine."""

    def fitted(rows: npt.NDArray[np.int64], qualities: Floats, asked: Any) -> tuple[Floats, Floats]:
        few = min(k, len(rows))
        cosines = stream.vectors[asked] @ stream.vectors[rows].T
        found = qualities[np.argpartition(-cosines, few - 1, axis=1)[:, :few]].mean(1)
        return found, np.full(len(asked), 0.5 / np.sqrt(1.0 + few))

    return PerEngine(stream, fitted)


def ridge(stream: Recorded, penalty: float = 10.0) -> Estimator:
    """Ridge regression per engine on the embedding and the text features."""
    looks = np.array([list(text_features(p).values()) for p in stream.prompts])
    spread = looks.std(0)
    looks = (looks - looks.mean(0)) / np.where(spread > 1e-6, spread, 1.0)
    design = np.hstack([stream.vectors.astype(np.float64), 0.1 * looks])

    def fitted(rows: npt.NDArray[np.int64], qualities: Floats, asked: Any) -> tuple[Floats, Floats]:
        part, mean = design[rows] - design[rows].mean(0), qualities.mean()
        square = part.T @ part + penalty * np.eye(design.shape[1])
        weights = np.linalg.solve(square, part.T @ (qualities - mean))
        found = (design[asked] - design[rows].mean(0)) @ weights + mean
        return found, _as_sure_as_fifty(rows, asked)

    return PerEngine(stream, fitted)


def tfidf_ridge(stream: Recorded) -> Estimator:
    """Ridge regression per engine on TF-IDF of words and pairs of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import Ridge

    terms = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit_transform(stream.prompts)

    def fitted(rows: npt.NDArray[np.int64], qualities: Floats, asked: Any) -> tuple[Floats, Floats]:
        model = Ridge(alpha=1.0, solver="sparse_cg", tol=1e-3).fit(terms[rows], qualities)
        return model.predict(terms[asked]), _as_sure_as_fifty(rows, asked)

    return PerEngine(stream, fitted)


def matrix_factorisation(stream: Recorded, rank: int = 32, passes: int = 20) -> Estimator:
    """RouteLLM's form: a vector per engine times a projection of the embedding, by Adam on the logistic loss."""

    def estimated(seen: Seen, asked: npt.NDArray[np.int64]) -> Known:
        rng = np.random.default_rng(0)
        rows, engines = np.nonzero(seen)
        if len(rows) < 5:
            return Known(np.tile([0.5, 1.0], (len(asked), 1)), np.full((len(asked), 2), 0.5))
        truth = stream.quality[rows, engines]
        weights = [
            rng.normal(0, 0.1, (stream.vectors.shape[1], rank)),
            rng.normal(0, 0.1, (2, rank)),
            np.zeros(2),
        ]
        moments = [[np.zeros_like(w), np.zeros_like(w)] for w in weights]
        step = 0
        for _ in range(passes):
            for batch in np.array_split(rng.permutation(len(rows)), max(1, len(rows) // 256)):
                step += 1
                vectors, of = stream.vectors[rows[batch]], engines[batch]
                projected = vectors @ weights[0]
                error = _chance((projected * weights[1][of]).sum(1) + weights[2][of]) - truth[batch]
                by_engine, bias = np.zeros_like(weights[1]), np.zeros(2)
                np.add.at(by_engine, of, error[:, None] * projected)
                np.add.at(bias, of, error)
                slopes = [vectors.T @ (error[:, None] * weights[1][of]), by_engine, bias]
                for weight, moment, slope in zip(weights, moments, slopes, strict=True):
                    slope = slope / len(batch) + 1e-4 * weight
                    moment[0] += 0.1 * (slope - moment[0])
                    moment[1] += 0.001 * (slope**2 - moment[1])
                    size = np.sqrt(moment[1] / (1 - 0.999**step)) + 1e-8
                    weight -= 0.01 * moment[0] / (1 - 0.9**step) / size
        found = _chance(stream.vectors[asked] @ weights[0] @ weights[1].T + weights[2])
        deviation = [_as_sure_as_fifty(np.flatnonzero(seen[:, e]), asked) for e in (0, 1)]
        return Known(found, np.stack(deviation, 1))

    return estimated


class RidgeLearner:
    """Ridge regression per action in closed form, as a learner of the linear half: what it would be without steps."""

    def __init__(self, width: int, model: bytes | None, penalty: float = 25.0) -> None:
        # Each row comes once a pass.
        eye = penalty * PASSES * np.eye(width)
        self._squares, self._products = np.stack([eye] * MOST_ACTIONS), np.zeros((MOST_ACTIONS, width))
        self._solved: dict[int, Floats] = {}
        self._waiting: dict[int, list[tuple[Row32, float, float]]] = {}

    def predict(self, action: int, row: Row32) -> float:
        """See router.choosing.linear.Learner."""
        if action not in self._solved:
            rows, targets, weights = (np.array(each) for each in zip(*self._waiting.pop(action), strict=True))
            self._squares[action] += (rows * weights[:, None]).T @ rows
            self._products[action] += (targets * weights) @ rows
            self._solved[action] = np.linalg.solve(self._squares[action], self._products[action])
        return float(row @ self._solved[action])

    def learn(self, action: int, row: Row32, target: float, weight: float) -> None:
        """See router.choosing.linear.Learner."""
        self._waiting.setdefault(action, []).append((row, target, weight))
        self._solved.pop(action, None)

    def save(self) -> bytes:
        """Nothing: it is for this measurement alone."""
        return b""


LEARNERS["ridge"] = RidgeLearner


class Ours:
    """The gateway's bandit, trained as the learner trains it. `learner`: of router.choosing.linear.LEARNERS."""

    def __init__(
        self, stream: Recorded, scenes: Sequence[Scene], half_life: float = np.inf, learner: str = ""
    ) -> None:
        self._stream = stream
        self._settings = BanditSettings(learner=learner or usual_learner())
        self._scenes = scenes
        self._knobs = TrainingKnobs(half_life_s=half_life)

    def __call__(self, seen: Seen, asked: npt.NDArray[np.int64]) -> Known:
        rows = []
        for at in np.flatnonzero(seen.any(1)):
            outcomes = {int(e): float(self._stream.quality[at, e]) for e in np.flatnonzero(seen[at])}
            rows.append(Row(Lesson(self._scenes[at], outcomes), float(at)))
        bandit = fresh_bandit(rows, self._settings, self._knobs, now_s=float(asked[0]))
        found = [bandit.estimate(self._scenes[at]) for at in asked]
        return Known(
            np.array([f.qualities for f in found]),
            np.array([f.deviations for f in found]),
            np.array([f.strangeness for f in found]),
        )


def _as_sure_as_fifty(rows: npt.NDArray[np.int64], asked: npt.NDArray[np.int64]) -> Floats:
    # A regression does not say how sure it is: it is given what fifty neighbours would have.
    return np.full(len(asked), 0.5 / np.sqrt(1.0 + min(50, len(rows))))


def _chance(scores: Any) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-scores)), np.float64)
