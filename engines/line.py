"""Requests that wait for a place at an engine, in their order: one line before all replicas of it.

Each that waits brings what takes a place for it: whoever has one first, of those that it may go to. Refuses to know who may
be asked, and why.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from engines.errors import EngineError


class HasPlaces(Protocol):
    """Where requests are answered: so many at a time."""

    @property
    def has_place(self) -> bool:
        """Whether one more could be taken in."""
        ...


@dataclass(slots=True, eq=False)
class _Waiting:
    order: int
    take: Callable[[], bool]
    place: asyncio.Future[None]


class Line:
    """At most `most` wait. Who is first in the order is first given a place that it can take."""

    __slots__ = ("_last", "_places", "_waiting", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._waiting: list[_Waiting] = []
        self._places: list[HasPlaces] = []
        self._last = 0

    def serves(self, place: HasPlaces) -> None:
        """Requests in this line may be given a place there."""
        self._places.append(place)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether nobody else may wait."""
        return len(self._waiting) >= self.most

    @property
    def shared(self) -> bool:
        """Whether several replicas serve it."""
        return len(self._places) > 1

    def is_first(self, place: HasPlaces) -> bool:
        """Whether it is the first that serves this line: for what is to be told of a line once."""
        return self._places[0] is place

    def order(self) -> int:
        """The place in the order of who comes now. Who has to wait again waits by the order it came with."""
        self._last += 1
        return self._last

    async def wait(self, order: int, take: Callable[[], bool], give_back: Callable[[], None]) -> None:
        """Return once `take` took a place, which says whether it did.

        Raises the EngineError that it raises: then none is to be had. `give_back`: its place, where it left at the very
        moment it was given one.
        """
        one = _Waiting(order, take, asyncio.get_running_loop().create_future())
        insort(self._waiting, one, key=_by_order)
        try:
            await one.place
        except BaseException:
            if one.place.done() and not one.place.cancelled() and one.place.exception() is None:
                give_back()
            elif one in self._waiting:
                self._waiting.remove(one)
            raise

    def look(self) -> None:
        """A place may be free: whoever can take one is given it."""
        if not self._waiting:
            return
        left = []
        for at, one in enumerate(self._waiting):
            if not any(place.has_place for place in self._places):
                left += self._waiting[at:]
                break
            if not one.place.done() and not _taken(one):
                left.append(one)
        self._waiting = left


def _taken(one: _Waiting) -> bool:
    """Whether it no longer waits."""
    try:
        if not one.take():
            return False
    except EngineError as error:
        one.place.set_exception(error)
    else:
        one.place.set_result(None)
    return True


def _by_order(one: _Waiting) -> int:
    return one.order
