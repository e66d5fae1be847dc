"""Draws the maps of tenants' banks: for the pages in a process of their own, one after another, or for a command."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from admin.computing import Computations, ReportProgress
from admin.flat_map import flat_map
from admin.own_process import in_own_process
from store import Store

MOST = 50_000
"""Largest number of examples on one map; the latest ones are drawn."""
_WAIT_S = 60.0


def draw(store: Store, tenant: str) -> int:
    """Draws one tenant's map and returns the number of examples on it. Takes seconds to a minute.

    Raises what writing raises.
    """
    places = store.examples.places
    ids, vectors = places.vectors(tenant, MOST)
    return places.put(tenant, ids.tolist(), flat_map(vectors), time.time()).result(_WAIT_S)


def maps(open_store: Callable[[], Store]) -> Computations[str]:
    """Draws a tenant's map, anew each time, in processes of their own, which call `open_store`. The caller closes it."""
    return Computations(in_own_process(partial(drawn, open_store)), "map", fresh_s=0.0)


def drawn(open_store: Callable[[], Store], tenant: str, report: ReportProgress) -> dict[str, Any]:
    """As `draw`, of a store that is opened for it: vectors are read, and places written, where they are computed."""
    report("drawing the map", 0.0)
    with contextlib.closing(open_store()) as store:
        return {"examples": draw(store, tenant)}
