"""The rows of a batch as numpy arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadtest.records import WIDTH

Rows = NDArray[np.float64]


def rows_of(data: bytes) -> Rows:
    """The rows in a batch: one request each, columns as in `records.COLUMNS`."""
    return np.frombuffer(data, dtype=np.float64).reshape(-1, WIDTH)


def doubles_of(data: bytes) -> NDArray[np.float64]:
    """The numbers in a batch, as one array."""
    return np.frombuffer(data, dtype=np.float64)
