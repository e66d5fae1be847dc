"""Draws the maps of tenants' banks, one after another, on a background thread or for a command."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

from admin.computing import lower_priority
from admin.flat_map import flat_map
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


class MapMaker:
    """One map at a time, on a thread of low priority."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="map", initializer=lower_priority)
        self._lock = threading.Lock()
        self._drawing: dict[str, Future[int]] = {}

    def begin(self, tenant: str) -> None:
        """Starts drawing a tenant's map, unless it is being drawn."""
        with self._lock:
            if not self.drawing(tenant):
                self._drawing[tenant] = self._threads.submit(draw, self._store, tenant)

    def drawing(self, tenant: str) -> bool:
        """Whether the tenant's map is being drawn."""
        future = self._drawing.get(tenant)
        return future is not None and not future.done()

    def problem(self, tenant: str) -> str:
        """Why the last drawing failed; empty if it did not."""
        future = self._drawing.get(tenant)
        if future is None or not future.done() or future.cancelled():
            return ""
        error = future.exception()
        return "" if error is None else str(error) or type(error).__name__

    def close(self) -> None:
        """Starts no further map."""
        self._threads.shutdown(wait=False, cancel_futures=True)
