"""How often Python's cyclic garbage collector looks, in a process that serves."""

from __future__ import annotations

import gc


def calm_collector() -> None:
    """Once everything that lives until the end is built: it is not walked again, and looks become rare."""
    gc.collect()
    gc.freeze()
    # Requests leave little for the collector: looking 14 times less often takes a tenth off what one costs.
    gc.set_threshold(10_000, 20, 50)
