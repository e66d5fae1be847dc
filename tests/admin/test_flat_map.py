"""What is near stays near on the map, the same is drawn the same, and a bank of any size has one."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt
import pytest

from admin.flat_map import flat_map


def groups(count: int, each: int, seed: int = 0) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Unit vectors around a few directions, and which one each is around."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(count, 64))
    of = np.repeat(np.arange(count), each)
    vectors = centres[of] + 0.15 * draw.normal(size=(count * each, 64))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), of


@pytest.mark.parametrize("drawn", [3000, 45])
def test_what_is_about_the_same_stands_together(drawn: int) -> None:
    pytest.importorskip("sklearn")
    vectors, of = groups(4, 20)
    places = flat_map(vectors, drawn=drawn)
    assert places.shape == (80, 2) and np.abs(places).max() <= 1.0
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (of[distances.argmin(axis=1)] == of).mean() > 0.95
    assert np.array_equal(places, flat_map(vectors, drawn=drawn))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_handful_has_a_map_without_any_library(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    places = flat_map(np.eye(16, dtype=np.float32)[:n])
    assert places.shape == (n, 2) and np.isfinite(places).all()
