"""Embeddings as the store keeps them: checked once, then float16 bytes. Knows no index and no table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from store.records import Vector


class BadVector(ValueError):
    """Not an embedding: the message says what is wrong with it."""


def checked(vector: npt.NDArray[Any], dimensions: int | None = None) -> Vector:
    """The vector as float32 of unit length, shape (dimensions,).

    Raises BadVector for another shape, NaN or infinity, or a length of zero (an index would accept all of these
    and answer nonsense).
    """
    of_size = vector.ndim == 1 and (dimensions is None or len(vector) == dimensions)
    if of_size and vector.dtype == np.float32 and abs(float(vector @ vector) - 1.0) < 1e-4:
        # As embedders give them: nothing else is to be looked at.
        return vector
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.asarray(vector, dtype=np.float32)
        length = float(np.linalg.norm(array))
    if array.ndim != 1 or (dimensions is not None and array.shape[0] != dimensions) or array.shape[0] == 0:
        wanted = f"({dimensions},)" if dimensions is not None else "(dimensions,)"
        raise BadVector(f"an embedding of shape {array.shape}: {wanted} is right")
    if not math.isfinite(length):
        raise BadVector("an embedding with NaN, infinity or a number too large")
    if length < 1e-6:
        raise BadVector("an embedding of length zero points nowhere")
    return array if abs(length - 1.0) < 1e-4 else (array / length).astype(np.float32)


def to_blob(vector: npt.NDArray[Any]) -> bytes:
    """Little-endian float16, two bytes per dimension. Raises BadVector."""
    return checked(vector).astype("<f2").tobytes()


def from_blob(blob: bytes) -> Vector:
    """The inverse of `to_blob`, to float16's precision."""
    return np.frombuffer(blob, dtype="<f2").astype(np.float32)
