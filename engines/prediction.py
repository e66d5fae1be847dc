"""What a student makes of one request: a label, how sure it is, and how an answer with it reads."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prediction:
    """Labels are in one order throughout; `top` is the place of the likeliest."""

    version: int
    """Of the student (store.learned.artifacts)."""
    labels: tuple[str, ...]
    """As the teacher writes them."""
    log_probabilities: tuple[float, ...]
    """Natural logarithms, calibrated."""
    top: int
    answer: str
    """The whole text of an answer with the likeliest label, in the form the teacher gives it."""
    in_domain: bool = True
    """Whether the request is like what it was trained on; otherwise the label means nothing."""
    committee: tuple[int, ...] = ()
    """The places of the labels that the last versions give, this one's first; for query by committee."""
    distance: float = 0.0
    """Cosine distance to the nearest input it was trained on, 0 to 2."""

    @property
    def label(self) -> str:
        """The likeliest label."""
        return self.labels[self.top]

    @property
    def confidence(self) -> float:
        """Calibrated probability of the likeliest label, 0 to 1."""
        return math.exp(self.log_probabilities[self.top])
