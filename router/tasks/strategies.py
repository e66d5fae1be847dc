"""Measures a request's doubt by each strategy of Cache & Distil (2023), section 3.1: the teacher gets the most
doubtful.

One pure function each. A higher value is more doubtful; from which value on the teacher is asked is `Threshold`'s matter
(section 5.1, appendix A.1), what it may cost the budget's (router.tasks.budget).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping

from engines.prediction import Prediction
from router.tasks.task import Strategy

Doubt = Callable[[Prediction, float], float]
"""Measures the doubt of a prediction, given a number drawn evenly from [0, 1)."""

_HISTORY = 1000
_RENEWED_EVERY = 20
_FEW = 20
"""Values before which a percentile says nothing."""


def margin(prediction: Prediction, draw: float) -> float:
    """Minus the difference of the two largest log-probabilities (Scheffer et al., 2001): 0 if they are equal."""
    logs = sorted(prediction.log_probabilities, reverse=True)
    return logs[1] - logs[0] if len(logs) > 1 else -math.inf


def entropy(prediction: Prediction, draw: float) -> float:
    """Entropy over the labels, in nats (Schohn and Cohn, 2000)."""
    return -sum(math.exp(each) * each for each in prediction.log_probabilities if each > -700)


def committee(prediction: Prediction, draw: float) -> float:
    """Members that contradict the present student, 0 to 4 (Seung et al., 1992). The draw decides between equal numbers."""
    return sum(each != prediction.top for each in prediction.committee[1:]) + draw


def coreset(prediction: Prediction, draw: float) -> float:
    """Cosine distance to the nearest input that the student was trained on (Sener and Savarese, 2018)."""
    return prediction.distance


def at_random(prediction: Prediction, draw: float) -> float:
    """The draw itself."""
    return draw


def front_loading(prediction: Prediction, draw: float) -> float:
    """Everything is asked until the budget is spent."""
    return math.inf


STRATEGIES: Mapping[Strategy, Doubt] = {
    "margin": margin,
    "entropy": entropy,
    "committee": committee,
    "coreset": coreset,
    "random": at_random,
    "front_loading": front_loading,
}


class Threshold:
    """From which value the teacher is asked: fixed, or the percentile of the latest values that leaves the wanted share."""

    def __init__(self, fixed: float | None = None) -> None:
        self._fixed = fixed
        self._history: deque[float] = deque(maxlen=_HISTORY)
        self._sorted: list[float] = []
        self._since = 0

    def exceeded(self, doubt: float, share: float) -> bool:
        """Tell if the teacher is to be asked, and note the value. `share`: of the requests, b/n, what may be asked."""
        if self._fixed is not None:
            return doubt >= self._fixed
        if self._since >= _RENEWED_EVERY or len(self._history) < _FEW:
            self._sorted, self._since = sorted(self._history), 0
        self._history.append(doubt)
        self._since += 1
        if share >= 1 or share <= 0:
            return share >= 1
        if len(self._sorted) < _FEW:
            return True
        return doubt >= self._sorted[min(len(self._sorted) - 1, int((1 - share) * len(self._sorted)))]
