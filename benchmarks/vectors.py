"""Vectors of texts by the product's own embedder, kept on disk: what was embedded once is not embedded again."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from router.embedding.embedder import Embedder

Matrix = npt.NDArray[np.float32]
_CHUNK = 2000


def embedded(texts: Sequence[str], cache: Path, kept_as: type[np.floating[Any]] = np.float16) -> Matrix:
    """Unit vectors, shape (len(texts), 384); kept in `cache` in chunks, with numbers of the type `kept_as`."""
    embedder = Embedder.open("package", cache / "models", deadline_ms=60_000)
    version = hashlib.sha256(f"{embedder.version} {kept_as.__name__}".encode()).hexdigest()
    folder = cache / f"vectors-{version[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    chunks = []
    try:
        for start in range(0, len(texts), _CHUNK):
            chunk = texts[start : start + _CHUNK]
            name = hashlib.blake2b("\0".join(chunk).encode(), digest_size=12).hexdigest()
            path = folder / f"{name}.npz"
            if not path.exists():
                made = np.stack([embedder.embed_blocking(text) for text in chunk]).astype(kept_as)
                temporary = path.with_suffix(".new.npz")
                np.savez(temporary, vectors=made)
                temporary.replace(path)
                print(f"embedded {start + len(chunk)} of {len(texts)} texts", file=sys.stderr, flush=True)
            with np.load(path) as file:
                chunks.append(file["vectors"].astype(np.float32))
    finally:
        embedder.close()
    return unit(np.concatenate(chunks))


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
