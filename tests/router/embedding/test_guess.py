"""The guess of a late embedding is learnt from those that were made, and finds what they find."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from router.embedding.guess import LEARNT_FROM, Guess, word_pieces


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def test_it_learns_the_map_and_knows_nothing_before() -> None:
    chance = np.random.default_rng(3)
    table = chance.standard_normal((200, 16)).astype(np.float32)
    hidden = chance.standard_normal((16, 8)).astype(np.float32)
    guess = Guess(table, 8)

    def drawn() -> tuple[np.ndarray, np.ndarray]:
        ids = chance.integers(200, size=6)
        return ids, unit(table[ids].sum(axis=0) @ hidden).astype(np.float32)

    for number in range(3 * LEARNT_FROM):
        ids, vector = drawn()
        assert number >= LEARNT_FROM or guess.of(ids) is None
        guess.learn(ids, vector)
    for _ in range(20):
        ids, vector = drawn()
        found = guess.of(ids)
        assert found is not None and found @ found == pytest.approx(1.0, abs=1e-5)
        assert found @ vector > 0.97


def test_what_is_asked_may_change() -> None:
    chance = np.random.default_rng(4)
    table = chance.standard_normal((50, 4)).astype(np.float32)
    guess = Guess(table, 4)
    for turn in (1.0, -1.0):
        for _ in range(16_384):
            ids = chance.integers(50, size=3)
            guess.learn(ids, turn * unit(table[ids].sum(axis=0)))
    ids = np.array([1, 2, 3])
    found = guess.of(ids)
    assert found is not None and found @ unit(table[ids].sum(axis=0)) < -0.5


@pytest.mark.parametrize(("kind", "type"), [("F32", np.float32), ("F16", np.float16)])
def test_word_pieces_are_read_where_they_lie(tmp_path: Path, kind: str, type: type) -> None:
    path, rows = tmp_path / "model.safetensors", np.arange(12, dtype=type).reshape(4, 3)
    told = {
        "other": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "embeddings.word_embeddings.weight": {
            "dtype": kind,
            "shape": [4, 3],
            "data_offsets": [4, 4 + rows.nbytes],
        },
    }
    header = json.dumps(told).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0\0\0" + rows.tobytes())
    found = word_pieces(path)
    assert found is not None and np.array_equal(found, rows)
    path.write_bytes(path.read_bytes().replace(b'"F', b'"Q'))
    assert word_pieces(path) is None and word_pieces(tmp_path / "none") is None
