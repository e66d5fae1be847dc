"""Waiting for the store on behalf of a client: for seconds at most, and a store that fails is a 503 and no fault of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from engines.errors import RequestError
from store.errors import StoreBusy, StoreError

T = TypeVar("T")

_WITHIN_S = 5.0
_RETRY_AFTER_S = 5.0


async def stored(work: Awaitable[T], *, within_s: float = _WITHIN_S) -> T:
    """What comes of `work` on the store. Raises RequestError (503) where it fails or takes too long, and what `work` raises.

    What takes too long goes on: it may yet be done, and asking for it once more does no harm.
    """
    try:
        async with asyncio.timeout(within_s):
            return await asyncio.shield(work)
    except StoreBusy:
        raise RequestError(
            "The store is busy; try again.", status=503, code="store_busy", retry_after_s=_RETRY_AFTER_S
        ) from None
    except (StoreError, TimeoutError, OSError) as error:
        raise RequestError(
            "The store cannot be used just now; try again.",
            status=503,
            code="store_unavailable",
            retry_after_s=_RETRY_AFTER_S,
        ) from error
