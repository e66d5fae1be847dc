"""Memory of a process that serves: how often Python's cyclic garbage collector looks, and what the C library keeps."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress

_M_ARENA_MAX = -8
"""Of glibc's malloc.h."""
_ARENAS = 2


def few_arenas() -> None:
    """Have the C library take memory from two arenas, in this process and those that it forks. Before any thread starts.

    glibc gives threads up to eight arenas a core, and what one has freed no other uses: after a reload, whose threads are
    others, each holds pages of its own (docs/experiments/soak.md). MALLOC_ARENA_MAX in the environment has precedence.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        # Another C library has no such function, and no such arenas.
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def calm_collector() -> None:
    """Once everything that lives until the end is built: it is not walked again, and looks become rare."""
    gc.collect()
    gc.freeze()
    # Requests leave little for the collector: looking 14 times less often takes a tenth off what one costs.
    gc.set_threshold(10_000, 20, 50)
