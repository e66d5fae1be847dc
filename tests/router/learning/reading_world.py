"""Outcomes with texts of a little world in which the right examples are known, for the tests of the cross-encoder."""

from __future__ import annotations

import numpy as np

from router.learning.cross_encoder_texts import TextRow, shown
from router.learning.scorer_rows import Row
from router.scorer_features import NAMES
from tests.router.scoring import DIMENSIONS, unit

ALONE, HELPED = 0.2, 0.95
PLACES = ("Eastwick", "Lisbon", "Harrow", "Toledo", "Ottawa", "Bergen", "Kyoto", "Dublin", "Quito", "Basel")


def asked(place: str) -> str:
    return f"population of {place}?"


def told(place: str) -> str:
    return shown(asked(place), f"{place} has many.")


def text_outcomes(count: int, seed: int = 0) -> list[TextRow]:
    """An example helps exactly if it is about the same place; otherwise it does nothing."""
    generator = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        here = str(generator.choice(PLACES))
        sent = int(generator.integers(0, 3))
        about = [here if generator.random() < 0.4 else str(generator.choice(PLACES)) for _ in range(sent)]
        right = generator.random() < (HELPED if here in about else ALONE)
        blank = np.zeros((sent, DIMENSIONS), np.float32)
        scalars = np.zeros((sent, len(NAMES)), np.float32)
        row = Row(f"r{i:05}", float(i), unit(PLACES.index(here)), blank, blank, scalars, float(right))
        rows.append(TextRow(row, asked(here), tuple(told(place) for place in about)))
    return rows
