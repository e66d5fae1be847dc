"""Counts who uses something that is to be closed once nobody does. For the event loop's thread."""

from __future__ import annotations

import asyncio
from types import TracebackType


class InUse:
    """A context manager that may be entered any number of times at once: `with in_use: ...`."""

    __slots__ = ("_count", "_free")

    def __init__(self) -> None:
        self._count = 0
        self._free: asyncio.Event | None = None

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._count -= 1
        if not self._count and self._free is not None:
            self._free.set()

    @property
    def count(self) -> int:
        """How many use it now."""
        return self._count

    async def free(self) -> None:
        """Wait until nobody uses it."""
        while self._count:
            self._free = self._free or asyncio.Event()
            self._free.clear()
            await self._free.wait()
