"""Vectors to measure retrieval on: real questions embedded with the product's own embedder, or synthetic clusters."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]

DIMENSIONS = 384
_SOURCES: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    ("bank_alpaca_open.jsonl.gz", (("instruction", "input"),)),
    ("sim_qqp_open.jsonl.gz", (("a",), ("b",))),
    ("bank_nq_dev.jsonl.gz", (("prompt",),)),
    ("sim_banking77.jsonl.gz", (("text",),)),
)
_CHUNK = 2000
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

    Raises FileNotFoundError naming the missing file.
    """
    texts = {text for name, fields in _SOURCES for text in _texts(folder / name, fields)}
    return sorted(texts, key=lambda text: hashlib.blake2b(text.encode(), digest_size=8).digest())


def _texts(path: Path, fields: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            for names in fields:
                text = "\n".join(filter(None, (row.get(name, "").strip() for name in names)))
                if text:
                    yield text[:1500]


def embedded(texts: list[str], cache: Path) -> Matrix:
    """The texts' vectors, shape (len(texts), 384). Kept in `cache` chunk by chunk: what was embedded once is not again."""
    from router.embedder import Embedder

    embedder = Embedder.open("package", cache / "models", deadline_ms=60_000)
    folder = cache / f"vectors-{hashlib.sha256(embedder.version.encode()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    chunks = []
    try:
        for start in range(0, len(texts), _CHUNK):
            chunk = texts[start : start + _CHUNK]
            name = hashlib.blake2b("\0".join(chunk).encode(), digest_size=12).hexdigest()
            path = folder / f"{name}.npz"
            if not path.exists():
                made = np.stack([embedder.embed_blocking(text) for text in chunk]).astype(np.float16)
                temporary = path.with_suffix(".new.npz")
                np.savez(temporary, vectors=made)
                temporary.replace(path)
                print(f"embedded {start + len(chunk)} of {len(texts)} texts", file=sys.stderr, flush=True)
            with np.load(path) as file:
                chunks.append(file["vectors"].astype(np.float32))
    finally:
        embedder.close()
    return unit(np.concatenate(chunks))


def real(size: int, queries: int, folder: Path, texts: int, cache: Path | None = None) -> Data:
    """Real questions; the first `queries` of them are asked and are not in the index.

    Where `size` is more than the `texts` that are embedded, the rest are copies: a real vector plus a random one
    of length 0.25, made unit again, so that every original has company nearer than other questions are.
    """
    found = questions(folder)[: min(texts, size) + queries]
    vectors = embedded(found, cache or Path(tempfile.gettempdir()) / "understudy-retrieval")
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


def unit(rows: npt.NDArray[Any]) -> Matrix:
    """Rows scaled to length 1."""
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def exact_nearest(vectors: Matrix, queries: Matrix, k: int) -> npt.NDArray[np.int64]:
    """Ids of the k vectors with the largest cosine for each query, shape (queries, k), in no order: the truth."""
    best_values = np.full((len(queries), 0), 0.0, np.float32)
    best_ids = np.zeros((len(queries), 0), np.int64)
    for start in range(0, len(vectors), 50_000):
        similarities = queries @ vectors[start : start + 50_000].T
        ids = np.broadcast_to(np.arange(start, start + similarities.shape[1]), similarities.shape)
        values = np.concatenate([best_values, similarities], axis=1)
        ids = np.concatenate([best_ids, ids], axis=1)
        chosen = np.argpartition(-values, min(k, values.shape[1]) - 1, axis=1)[:, :k]
        best_values = np.take_along_axis(values, chosen, axis=1)
        best_ids = np.take_along_axis(ids, chosen, axis=1)
    return best_ids
