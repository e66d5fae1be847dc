"""A chore on an event loop that one process at a time does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from store.jobs.leases import LEASE_S, Leases, NotAlone


@asynccontextmanager
async def alone(leases: Leases, name: str, for_s: float = LEASE_S) -> AsyncIterator[None]:
    """Hold a lease while the block runs: what it writes, in its tasks as well, is refused once the lease is over.

    Raises NotAlone at once where another process, or block, holds it, and what reading and writing raise.
    """
    lease = leases.lease(name, for_s)
    loop = asyncio.get_running_loop()
    taking = loop.run_in_executor(None, lease.take)
    try:
        if not await asyncio.shield(taking):
            raise NotAlone(f"another process is at it: it holds the lease '{name}'")
        with lease.holding():
            yield
    finally:
        # Whoever is cancelled meanwhile may have taken it all the same.
        await asyncio.wait([taking])
        await asyncio.shield(loop.run_in_executor(None, lease.release))
