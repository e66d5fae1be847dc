"""Fits what a scorer is made of: a logistic regression from features to worth, and how the worths of a set add up.

Boosted trees were no better in any of the recorded files (docs/experiments/choosing-examples.md). Imports scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from learning.training.scorer.rows import Row
from router.examples.features import NAMES
from router.examples.prior import prior_weights
from router.examples.scorer import Declared
from router.examples.set_quality import (
    UNLEARNT,
    SetQuality,
    Terms,
    coefficients,
    terms_of_prefixes,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

Worths = Callable[["Floats"], list[float]]
"""From features of candidates to their worths."""

_NONE: Terms = (0.0, 0.0, 0.0, 0.0)
_EXPECTED = (UNLEARNT.alone, 0.3, 0.4, 0.05, 0.01)
"""Coefficients until outcomes say otherwise, ..."""
_STRENGTH = 10.0
"""... as if so many outcomes had said so; ..."""
_SCOPE_STRENGTH, _LEAST_OF_SCOPE = 50.0, 30
"""... and the same for a scope, which starts from its tenant's. Fewer outcomes than that make none of its own."""
_MOST_SCOPES = 200


@dataclass(frozen=True, slots=True)
class Line:
    """A logistic regression over the features as they are."""

    weights: npt.NDArray[np.float64]
    """(features,)"""
    bias: float

    def __call__(self, features: Floats) -> list[float]:
        """The worth of each row."""
        found: list[float] = (1.0 / (1.0 + np.exp(-(features @ self.weights + self.bias)))).tolist()
        return found

    def onnx(self, *, embedding_version: str, qualities: dict[str, SetQuality]) -> bytes:
        """As a model that router.examples.scorer opens."""
        from onnx import helper
        from skl2onnx import to_onnx
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression()
        model.classes_, model.n_features_in_ = np.array([0, 1]), len(self.weights)
        model.coef_, model.intercept_ = self.weights.reshape(1, -1), np.array([self.bias])
        sample = np.zeros((1, len(NAMES)), np.float32)
        made = to_onnx(model, sample, options={"zipmap": False}, target_opset=17)
        said = Declared(embedding_version=embedding_version, qualities=qualities)
        helper.set_model_props(made, said.metadata())
        return bytes(made.SerializeToString())


def fitted(features: Floats, worth: npt.NDArray[Any], weight: npt.NDArray[Any]) -> Line:
    """The line that predicts `worth`, 0 to 1: each row counts as right and as wrong, by its share."""
    from sklearn.linear_model import LogisticRegression

    mean, spread = features.mean(axis=0), features.std(axis=0) + 1e-6
    scaled = np.clip((features - mean) / spread, -10.0, 10.0)
    shares = np.concatenate([weight * worth, weight * (1.0 - worth)]) + 1e-9
    told = np.concatenate([np.ones(len(worth)), np.zeros(len(worth))])
    model = LogisticRegression(C=0.1, max_iter=300).fit(np.concatenate([scaled, scaled]), told, shares)
    weights = model.coef_[0] / spread
    return Line(weights, float(model.intercept_[0] - weights @ mean))


def nearest(features: Floats, worth: npt.NDArray[Any], weight: npt.NDArray[Any]) -> Line:
    """The prior's ranking with worths that are about right: what serves if nothing learnt ranks better."""
    prior = np.array(prior_weights())
    line = fitted((features @ prior).reshape(-1, 1).astype(np.float32), worth, weight)
    return Line(prior * max(1e-3, float(line.weights[0])), line.bias)


def terms_of(worths: Worths, row: Row, places: Sequence[int] | None = None) -> Terms:
    """The terms of the candidates that were sent, or of those at `places`, the best first."""
    chosen = list(row.sent if places is None else places)
    if not chosen:
        return _NONE
    found = worths(row.features[chosen])
    return terms_of_prefixes(found, [row.answers[place] for place in chosen])[-1]


@dataclass(frozen=True, slots=True)
class Judge:
    """Estimates the worth of sets of examples by several rankings together: each explains what the others leave."""

    rankings: Sequence[Worths]
    weights: list[float]

    @classmethod
    def fitted(cls, rows: Sequence[Row], rankings: Sequence[Worths]) -> Judge:
        """From outcomes; before these say otherwise, every ranking is as good."""
        alone, *each = _EXPECTED
        terms = np.array([cls(rankings, []).terms(row, row.sent) for row in rows])
        quality, weight = np.array([row.quality for row in rows]), np.array([row.weight for row in rows])
        expected = (alone, *(n / len(rankings) for n in each * len(rankings)))
        return cls(rankings, solved(terms, quality, weight, expected, _STRENGTH))

    def terms(self, row: Row, places: Sequence[int]) -> list[float]:
        """The terms of a set by all of them."""
        return [term for worths in self.rankings for term in terms_of(worths, row, places)]

    def __call__(self, row: Row, places: Sequence[int]) -> float:
        """The expected quality of the row's request with the candidates at `places`."""
        return float(np.dot(self.weights, [1.0, *self.terms(row, places)]))


def by_scope(worths: Worths, rows: Sequence[Row]) -> dict[str, SetQuality]:
    """The coefficients of all rows as "", and those of each scope with enough of its own."""
    terms = [terms_of(worths, row) for row in rows]
    quality, weight = np.array([row.quality for row in rows]), np.array([row.weight for row in rows])
    everywhere = coefficients(solved(np.array(terms), quality, weight, _EXPECTED, _STRENGTH))
    found = {"": everywhere}
    scopes = np.array([row.scope for row in rows])
    names, counts = np.unique(scopes, return_counts=True)
    for name, count in sorted(zip(names.tolist(), counts.tolist(), strict=True), key=lambda pair: -pair[1]):
        if name and count >= _LEAST_OF_SCOPE and len(found) <= _MOST_SCOPES:
            own = np.flatnonzero(scopes == name)
            start = astuple(everywhere)
            found[name] = coefficients(
                solved(np.array(terms)[own], quality[own], weight[own], start, _SCOPE_STRENGTH)
            )
    return found


def solved(
    terms: npt.NDArray[Any],
    quality: npt.NDArray[Any],
    weight: npt.NDArray[Any],
    expected: Sequence[float],
    strength: float,
) -> list[float]:
    """Coefficients, none below 0, that fit the outcomes best, held near what is expected where these are few."""
    from sklearn.linear_model import LinearRegression

    rows = np.column_stack([np.ones(len(terms)), terms])
    # Held by what one outcome with some examples says of each; "alone" is the best known of them.
    hold = np.sqrt(strength) * np.ones(rows.shape[1])
    hold[0] *= 0.3
    root = np.sqrt(weight)
    left = np.concatenate([rows * root[:, None], np.diag(hold)])
    model = LinearRegression(fit_intercept=False, positive=True)
    model.fit(left, np.concatenate([quality * root, hold * np.array(expected)]))
    found: list[float] = model.coef_.tolist()
    return found
