"""How good an engine is with examples, from how well they fit the request: ridge regression on a handful of numbers, online.

A line through few numbers is learnt from dozens of outcomes, where neighbourhoods and many features need thousands. It
starts from what the scorer expects, and learns what is wrong with that. Old outcomes fade.
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
"""Context features (router.choosing.features), each with what is about its middle and its deviation. Fixed, so that
what was learnt
keeps its meaning."""
_SIZE = len(SCALES) + 1
_CAUTION = 20.0
"""Ridge: how many outcomes it takes to believe in a slope of one deviation. The intercept takes a tenth of that."""


class ExampleFit:
    """One line per action. Not safe to use from several threads: the bandit that owns it holds a lock."""

    def __init__(self, half_life_lessons: float = 5000.0) -> None:
        self._fade = 0.5 ** (1.0 / half_life_lessons)
        self._squares: dict[str, Floats] = {}
        """Per action, [numbers, numbers]: faded sum of outer products."""
        self._products: dict[str, Floats] = {}
        """Per action, [numbers]: faded sum of numbers times what was wrong with the expectation."""
        self._lines: dict[str, list[float]] = {}

    def expected(self, action: str, context: Mapping[str, float], prior: float) -> float:
        """Quality, 0..1, where the scorer expects `prior`."""
        line = self._lines.get(action)
        if line is None:
            return prior
        correction: float = sum(map(operator.mul, line, _numbers(context)))
        return min(1.0, max(0.0, prior + correction))

    def learn(
        self, action: str, context: Mapping[str, float], prior: float, quality: float, weight: float
    ) -> None:
        """The scorer expected `prior`, and it was `quality`."""
        numbers = np.array(_numbers(context))
        squares = self._squares.setdefault(action, np.zeros((_SIZE, _SIZE)))
        products = self._products.setdefault(action, np.zeros(_SIZE))
        squares *= self._fade
        products *= self._fade
        squares += weight * np.outer(numbers, numbers)
        products += weight * (quality - prior) * numbers
        self._lines[action] = np.linalg.solve(squares + _RIDGE, products).tolist()

    def arrays(self, actions: list[str]) -> dict[str, Floats]:
        """What was learnt, [actions, ...]; zeros for an action never seen with examples."""
        nothing, flat = np.zeros((_SIZE, _SIZE)), np.zeros(_SIZE)
        return {
            "fit_squares": np.array([self._squares.get(a, nothing) for a in actions]).reshape(
                -1, _SIZE, _SIZE
            ),
            "fit_products": np.array([self._products.get(a, flat) for a in actions]).reshape(-1, _SIZE),
        }

    def restore(self, arrays: Mapping[str, Floats], actions: list[str]) -> None:
        """The inverse of `arrays`. Raises ValueError for arrays that are none of its own, KeyError for missing ones."""
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
    """[1, scaled features]; one that is missing is taken for its middle. Plain numbers: arrays of six cost more."""
    found = [1.0]
    for name, middle, width in _PLACES:
        found.append(min(3.0, max(-3.0, (context.get(name, middle) - middle) / width)))
    return found
