"""Who waits is given a place by its order, and nothing is lost when one leaves, or when none is to be had."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from engines.errors import Unavailable
from engines.line import Line


@dataclass
class Desk:
    """So many places."""

    places: int
    shut: bool = False

    @property
    def has_place(self) -> bool:
        return self.places > 0

    def take(self) -> bool:
        if self.shut:
            raise Unavailable("shut")
        if not self.places:
            return False
        self.places -= 1
        return True

    def give_back(self) -> None:
        self.places += 1


def made(*places: int, most: int = 9) -> tuple[Line, list[Desk]]:
    line, desks = Line(most), [Desk(count) for count in places]
    for desk in desks:
        line.serves(desk)
    return line, desks


async def waiting(line: Line, desk: Desk, order: int | None = None) -> asyncio.Task[None]:
    at = line.order() if order is None else order
    task = asyncio.create_task(line.wait(at, desk.take, desk.give_back))
    await asyncio.sleep(0)
    return task


async def test_places_go_by_order_and_past_those_that_cannot_take_them() -> None:
    line, (one, other) = made(0, 0)
    first, second, third = [await waiting(line, desk) for desk in (other, one, one)]
    one.places = 1
    line.look()
    await asyncio.sleep(0)
    assert (first.done(), second.done(), third.done()) == (False, True, False)
    # Who has to wait again keeps its place in the order.
    again = await waiting(line, one, order=0)
    one.places = other.places = 1
    line.look()
    await asyncio.gather(first, again)
    assert not third.done() and line.waiting == 1
    one.places = 1
    line.look()
    await third
    assert (line.waiting, one.places, other.places) == (0, 0, 0)


async def test_who_leaves_is_passed_over_and_gives_back_what_it_was_given() -> None:
    line, (one,) = made(0)
    first, second = await waiting(line, one), await waiting(line, one)
    first.cancel()
    await asyncio.sleep(0)
    assert line.waiting == 1
    one.places = 1
    line.look()
    # Given the place, and gone before it could go on.
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert (line.waiting, one.places) == (0, 1)


async def test_all_are_told_at_once_when_no_place_is_to_be_had() -> None:
    line, (one,) = made(0)
    tasks = [await waiting(line, one) for _ in range(3)]
    one.places, one.shut = 1, True
    line.look()
    assert all(isinstance(end, Unavailable) for end in await asyncio.gather(*tasks, return_exceptions=True))
    assert (line.waiting, one.places) == (0, 1)


async def test_it_holds_so_many(most: int = 2) -> None:
    line, (one,) = made(0, most=most)
    tasks = [await waiting(line, one) for _ in range(most)]
    assert line.full and line.waiting == most and not line.shared and line.is_first(one)
    for task in tasks:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
