"""Vectors to measure retrieval on: real questions embedded with the product's own embedder, or synthetic clusters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.recorded import rows
from benchmarks.vectors import Matrix, embedded, unit

DIMENSIONS = 384
_SOURCES: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    ("bank_alpaca_open.jsonl.gz", (("instruction", "input"),)),
    ("sim_qqp_open.jsonl.gz", (("a",), ("b",))),
    ("bank_nq_dev.jsonl.gz", (("prompt",),)),
    ("sim_banking77.jsonl.gz", (("text",),)),
)
_TURN = 0.25
"""Length of the random vector added to a real one to make a copy: the copy's cosine with it is about 0.97."""


@dataclass(frozen=True, slots=True)
class Data:
    """What goes in, what is asked, and an honest sentence about both. Rows are of unit length, float32."""

    vectors: Matrix
    queries: Matrix
    description: str


def questions(folder: Path) -> list[str]:
    """Every distinct question of the recorded files, in an order that depends on the texts only.

    Raises NoData.
    """
    texts = {text for name, fields in _SOURCES for text in _texts(folder / name, fields)}
    return sorted(texts, key=lambda text: hashlib.blake2b(text.encode(), digest_size=8).digest())


def _texts(path: Path, fields: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    for row in rows(path):
        for names in fields:
            text = "\n".join(filter(None, (row.get(name, "").strip() for name in names)))
            if text:
                yield text[:1500]


def real(size: int, queries: int, folder: Path, texts: int, cache: Path) -> Data:
    """Real questions; the first `queries` of them, half of them at most, are asked and are not in the index.

    Where `size` is more than the `texts` that are embedded, the rest are copies: a real vector plus a random one
    of length 0.25, made unit again, so that every original has company nearer than other questions are.
    Raises NoData.
    """
    found = questions(folder)[: min(texts, size) + queries]
    queries = min(queries, len(found) // 2)
    vectors = embedded(found, cache)
    asked, originals = vectors[:queries], vectors[queries:]
    description = f"{len(originals)} real questions (Alpaca, Quora, Natural Questions, banking77)"
    if len(originals) >= size:
        return Data(originals[:size], asked, description)
    rng = np.random.default_rng(size)
    made = np.empty((size, originals.shape[1]), np.float32)
    made[: len(originals)] = originals
    for start in range(len(originals), size, 100_000):
        stop = min(start + 100_000, size)
        noise = unit(rng.standard_normal((stop - start, originals.shape[1]), dtype=np.float32))
        made[start:stop] = unit(originals[rng.integers(len(originals), size=stop - start)] + _TURN * noise)
    copies = size - len(originals)
    return Data(made, asked, f"{description} and {copies} copies turned by 14 degrees")


def clustered(size: int, queries: int, dimensions: int = DIMENSIONS) -> Data:
    """Synthetic: one cluster per 100 vectors, each its centre plus noise of length 0.9; a query is such a vector too."""
    rng = np.random.default_rng(size)
    centres = unit(rng.standard_normal((max(1, size // 100), dimensions), dtype=np.float32))

    def drawn(count: int) -> Matrix:
        made = np.empty((count, dimensions), np.float32)
        for start in range(0, count, 100_000):
            stop = min(start + 100_000, count)
            noise = unit(rng.standard_normal((stop - start, dimensions), dtype=np.float32))
            made[start:stop] = unit(centres[rng.integers(len(centres), size=stop - start)] + 0.9 * noise)
        return made

    return Data(drawn(size), drawn(queries), f"{len(centres)} synthetic clusters, noise 0.9")
