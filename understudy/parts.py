"""What runs beside requests, as one list: started in its order, told of finished requests and stopped in the reverse order.

A part that builds on another stands behind it in the list. So it is stopped first, and it sees a finished request before the
recorder, which stands early in the list, takes the answer over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TypeVar

from router.finished import Finished

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part:
    """One of them. What it has no need of is None."""

    owner: object
    """The object itself."""
    start: Callable[[], object] | None = None
    """On the event loop; must not block."""
    stop: Callable[[], object] | None = None
    """Blocks, so it runs in a thread. It is also called where `start` never was."""
    aclose: Callable[[], Awaitable[object]] | None = None
    """The same on the event loop, for what works there. A part has one of the two."""
    finished: Callable[[Finished], object] | None = None
    """Told of every request that the pipeline finished, on the event loop; must not block."""


class Parts:
    """The list. Build it in order, then `start`; `aclose` at the end."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._told: tuple[Callable[[Finished], object], ...] = ()

    def add(
        self,
        owner: T,
        *,
        start: Callable[[], object] | None = None,
        stop: Callable[[], object] | None = None,
        aclose: Callable[[], Awaitable[object]] | None = None,
        finished: Callable[[Finished], object] | None = None,
    ) -> T:
        """Append a part; see Part. Returns `owner`."""
        self._parts.append(Part(owner, start, stop, aclose, finished))
        if finished is not None:
            self._told = (finished, *self._told)
        return owner

    def owned(self, kind: type[T]) -> list[T]:
        """The objects of this class among the parts."""
        return [part.owner for part in self._parts if isinstance(part.owner, kind)]

    def __iter__(self) -> Iterator[Part]:
        return iter(self._parts)

    def start(self) -> None:
        """Start all of them. Inside the running loop."""
        for part in self._parts:
            if part.start is not None:
                part.start()

    def finished(self, finished: Finished) -> None:
        """Tell all of them of a finished request."""
        for tell in self._told:
            tell(finished)

    async def aclose(self) -> None:
        """Stop all of them, also where one fails to stop; the last failure is raised at the end."""
        async with AsyncExitStack() as stack:
            for part in self._parts:
                if part.stop is not None:
                    stack.push_async_callback(asyncio.to_thread, part.stop)
                if part.aclose is not None:
                    stack.push_async_callback(part.aclose)
