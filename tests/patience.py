"""Waiting for another thread, task or process without asserting how long it takes.

A wait ends as soon as its condition holds, so patience costs nothing; a machine that is slow, or stalls for a moment, breaks
no test. When it does end in vain, it says what was waited for and shows the log of who was to do it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE_S = 120.0
_LOOK_EVERY_S = 0.01
_SHOWN_CHARACTERS = 12_000


def wait_for(
    condition: Callable[[], object],
    what: str,
    *,
    log: Callable[[], str] = str,
    timeout_s: float = PATIENCE_S,
) -> None:
    """Return once `condition` holds. For the thread that runs the test."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, _in_vain(what, log(), timeout_s)
        time.sleep(_LOOK_EVERY_S)


async def until(
    condition: Callable[[], object],
    what: str,
    *,
    log: Callable[[], str] = str,
    timeout_s: float = PATIENCE_S,
) -> None:
    """The same on an event loop."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, _in_vain(what, log(), timeout_s)
        await asyncio.sleep(_LOOK_EVERY_S)


def eventually(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> bool:
    """Whether it comes to hold. For assertions that show their own values."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True


def _in_vain(what: str, log: str, timeout_s: float) -> str:
    shown = log[-_SHOWN_CHARACTERS:]
    return f"waited {timeout_s:g} s in vain: {what}" + (f"\n{shown}" if shown else "")
