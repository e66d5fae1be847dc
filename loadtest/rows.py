"""The rows of a batch as numpy tables, for those who add them up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadtest.records import WIDTH

Rows = NDArray[np.float64]


def rows_of(data: bytes) -> Rows:
    """The table in a batch: one request a line, columns as in `records.COLUMNS`."""
    return np.frombuffer(data, dtype=np.float64).reshape(-1, WIDTH)


def doubles_of(data: bytes) -> NDArray[np.float64]:
    """The plain list of numbers in a batch."""
    return np.frombuffer(data, dtype=np.float64)
