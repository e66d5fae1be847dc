"""Reading on behalf of an event loop: inline where it takes microseconds, else on threads, and not for longer than allowed.

SQLite answers from this machine's memory, PostgreSQL over a connection that may be slow, or dead.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from store.errors import StoreError

P = ParamSpec("P")
T = TypeVar("T")

REFUSING = "UNDERSTUDY_REFUSE_BLOCKING_READS"
"""A variable of the environment, for tests: a read that would hold up an event loop is an error."""
_WAITING_PER_THREAD = 16


class ReadLate(StoreError):
    """The database did not answer within the time that a request may wait for it."""


class BlockingRead(AssertionError):
    """A read was begun on an event loop's thread, which it would have held up."""


class Reads:
    """Has blocking reads done for an event loop, on so many threads; 0: inline, where `deadline_s` means nothing."""

    def __init__(self, threads: int = 0, deadline_s: float = 0.05) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="store-reader") if threads else None
        self._deadline_s = deadline_s
        self._waiting = 0
        # Where nothing is answered, more would only wait behind those that are late already.
        self._most = _WAITING_PER_THREAD * threads

    @property
    def inline(self) -> bool:
        """Whether reading takes microseconds, and is done on the spot."""
        return self._threads is None

    async def __call__(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `read` gives, however long it takes. Raises what it raises."""
        if self._threads is None:
            return read(*args, **kwargs)
        call = partial(read, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def large(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for what may be megabytes: on a thread in any case. Not for what is kept in this process's memory."""
        if self._threads is not None:
            return await self(read, *args, **kwargs)
        return await asyncio.to_thread(read, *args, **kwargs)

    async def in_time(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for a request, which goes on without where it takes too long. Raises ReadLate."""
        if self._threads is None:
            return read(*args, **kwargs)
        if self._waiting >= self._most:
            raise ReadLate("too many reads wait for PostgreSQL")
        self._waiting += 1
        call = partial(read, *args, **kwargs)
        reading = asyncio.get_running_loop().run_in_executor(self._threads, call)
        reading.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(self._deadline_s):
                # Not cancelled where it has begun: then its thread is busy until it ends, and counts as that.
                return await asyncio.shield(reading)
        except TimeoutError:
            raise ReadLate(f"PostgreSQL did not answer within {self._deadline_s * 1000:g} ms") from None

    def _ended(self, reading: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        if not reading.cancelled():
            # Whoever was late for it does not ask any more.
            reading.exception()

    def close(self) -> None:
        """Begin nothing more. Does not wait."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


INLINE = Reads()
"""For SQLite."""

refused: list[str] = []
"""Where blocking reads were refused: for tests, as most of who reads takes an error for a store that fails."""


def refuse_on_loop() -> None:
    """Raises BlockingRead on a thread whose event loop runs, where the environment asks for it."""
    if REFUSING in os.environ and asyncio._get_running_loop() is not None:
        where = "".join(traceback.format_stack(limit=8)[:-1])
        refused.append(where)
        raise BlockingRead(f"a blocking read on an event loop's thread:\n{where}")
