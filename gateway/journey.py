"""Where a request's record begins (router.finished.Journey)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

from router.asked import Arrival

_ID_CHARACTERS = 24
_IDS_AT_ONCE = 256


def _ids() -> Iterator[str]:
    """Unguessable ids. Asking the system for each one lets another thread take the interpreter in mid-request."""
    while True:
        drawn = secrets.token_hex(_IDS_AT_ONCE * _ID_CHARACTERS // 2)
        yield from (drawn[at : at + _ID_CHARACTERS] for at in range(0, len(drawn), _ID_CHARACTERS))


_new_id = _ids().__next__


def arrival(method: str, path: str) -> Arrival:
    """A request that arrives now; nobody knows yet whose it is. For the event loop's thread only."""
    return Arrival(_new_id(), time.perf_counter(), time.time(), method, path)
