"""How often Python's cyclic garbage collector looks, in a process that serves, and what it gives back."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress


def calm_collector() -> None:
    """Once everything that lives until the end is built: it is not walked again, and looks become rare."""
    gc.collect()
    gc.freeze()
    # Requests leave little for the collector: looking 14 times less often takes a tenth off what one costs.
    gc.set_threshold(10_000, 20, 50)


def collect_now() -> None:
    """Free what much at once has become unneeded: the collector itself would look only after many requests.

    glibc keeps what is freed between blocks that are in use; told to, it gives those pages back to the system.
    """
    gc.collect()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
