from __future__ import annotations

import numpy as np
import pytest

from store.examples.vectors import BadVector, checked, from_blob, to_blob
from tests.store.rows import unit_vector


def test_a_vector_survives_the_blob_to_half_precision() -> None:
    vector = unit_vector(1, 384)
    blob = to_blob(vector)
    assert len(blob) == 768
    assert from_blob(blob).dtype == np.float32
    assert float(from_blob(blob) @ vector) == pytest.approx(1.0, abs=1e-3)


def test_any_length_but_zero_is_brought_to_one() -> None:
    assert np.allclose(checked(unit_vector(1) * 7), unit_vector(1), atol=1e-6)


@pytest.mark.parametrize(
    ("vector", "problem"),
    [
        (np.zeros(8), "length zero"),
        (np.full(8, np.nan), "NaN"),
        (np.array([1.0, np.inf]), "NaN, infinity"),
        (np.full(8, 3e38), "too large"),
        (np.ones((1, 8)), r"shape \(1, 8\)"),
        (np.ones(0), r"shape \(0,\)"),
    ],
)
def test_what_is_no_direction_is_refused(vector: np.ndarray, problem: str) -> None:
    with pytest.raises(BadVector, match=problem):
        checked(vector)


def test_another_embedder_s_width_is_refused() -> None:
    with pytest.raises(BadVector, match=r"shape \(7,\): \(8,\) is right"):
        checked(np.ones(7), 8)
