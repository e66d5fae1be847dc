"""Predicts the quality of an engine with examples from how well they fit the request: online ridge regression per action.

A line through a handful of numbers is learnt from dozens of outcomes, where neighbourhoods and many features need
thousands. It starts from the scorer's expectation and learns its error. Old outcomes fade.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SCALES: Mapping[str, tuple[float, float]] = {
    "best_similarity": (0.85, 0.1),
    "similarity_spread": (0.1, 0.1),
    "quality_with": (0.6, 0.25),
    "gain": (0.3, 0.25),
    "examples": (0.5, 0.3),
}
"""Context features (router.choosing.features) by name, each with its approximate middle and deviation. The values are
fixed, so that what was learnt keeps its meaning."""
_SIZE = len(SCALES) + 1
_CAUTION = 20.0
"""Ridge penalty: the number of outcomes needed to believe in a slope of one deviation. The intercept needs a tenth."""


class ExampleFit:
    """One regression per action. Not thread-safe: the bandit that owns it holds a lock."""

    def __init__(self, half_life_lessons: float = 5000.0) -> None:
        self._fade = 0.5 ** (1.0 / half_life_lessons)
        self._squares: dict[str, Floats] = {}
        """Per action, [numbers, numbers]: faded sum of outer products."""
        self._products: dict[str, Floats] = {}
        """Per action, [numbers]: faded sum of numbers times the error of the scorer's expectation."""
        self._lines: dict[str, list[float]] = {}

    def expected(self, action: str, context: Mapping[str, float], prior: float) -> float:
        """Expected quality, 0..1: the scorer's expectation `prior`, corrected by what was learnt."""
        line = self._lines.get(action)
        if line is None:
            return prior
        correction: float = sum(map(operator.mul, line, _numbers(context)))
        return min(1.0, max(0.0, prior + correction))

    def learn(
        self, action: str, context: Mapping[str, float], prior: float, quality: float, weight: float
    ) -> None:
        """Learns from one outcome: the scorer expected `prior`, the quality was `quality`."""
        numbers = np.array(_numbers(context))
        squares = self._squares.setdefault(action, np.zeros((_SIZE, _SIZE)))
        products = self._products.setdefault(action, np.zeros(_SIZE))
        squares *= self._fade
        products *= self._fade
        squares += weight * np.outer(numbers, numbers)
        products += weight * (quality - prior) * numbers
        self._lines[action] = np.linalg.solve(squares + _RIDGE, products).tolist()

    def arrays(self, actions: list[str]) -> dict[str, Floats]:
        """What was learnt, [actions, ...]; zeros for an action that was never used with examples."""
        nothing, flat = np.zeros((_SIZE, _SIZE)), np.zeros(_SIZE)
        return {
            "fit_squares": np.array([self._squares.get(a, nothing) for a in actions]).reshape(
                -1, _SIZE, _SIZE
            ),
            "fit_products": np.array([self._products.get(a, flat) for a in actions]).reshape(-1, _SIZE),
        }

    def restore(self, arrays: Mapping[str, Floats], actions: list[str]) -> None:
        """Restores what `arrays` returned. Raises ValueError for arrays of another shape, KeyError for missing ones."""
        squares, products = arrays["fit_squares"], arrays["fit_products"]
        if squares.shape != (len(actions), _SIZE, _SIZE) or products.shape != (len(actions), _SIZE):
            raise ValueError(f"lines of shape {squares.shape} for {len(actions)} actions")
        if not (np.isfinite(squares).all() and np.isfinite(products).all()):
            raise ValueError("lines that are not finite")
        for action, square, product in zip(actions, squares, products, strict=True):
            if square.any():
                self._squares[action], self._products[action] = square.copy(), product.copy()
                self._lines[action] = np.linalg.solve(square + _RIDGE, product).tolist()


_RIDGE = np.diag([_CAUTION / 10] + [_CAUTION] * len(SCALES))
_PLACES = tuple((name, middle, width) for name, (middle, width) in SCALES.items())


def _numbers(context: Mapping[str, float]) -> list[float]:
    """[1, scaled features]; a missing feature takes its middle. A list, since arrays of six numbers are slower."""
    found = [1.0]
    for name, middle, width in _PLACES:
        found.append(min(3.0, max(-3.0, (context.get(name, middle) - middle) / width)))
    return found
