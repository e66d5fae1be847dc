"""Who waits is given a place by its order, and nothing is lost when one leaves, or when none is to be had."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from engines.engine import EngineRequest
from engines.errors import Unavailable
from engines.placement import Placement, Rank
from engines.servers.caps import Caps, Held
from engines.servers.line import Line, Seat, expected_tokens
from engines.servers.servers import Servers
from tests.engines.asking import chat, closed_port, engine, request
from tests.knobs import limits, servers_of


@dataclass(eq=False)
class Desk:
    """So many places."""

    places: int
    shut: bool = False
    held: Held = field(default_factory=lambda: Held(Caps()))

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


async def waiting(line: Line, desk: Desk, seat: Seat | None = None) -> asyncio.Task[None]:
    task = asyncio.create_task(line.wait(seat or line.seat(chat()), desk.take, desk.give_back))
    await asyncio.sleep(0)
    return task


async def test_places_go_by_order_and_past_those_that_cannot_take_them() -> None:
    line, (one, other) = made(0, 0)
    seats = [line.seat(chat()) for _ in range(3)]
    first, second, third = [
        await waiting(line, desk, seat) for desk, seat in zip((other, one, one), seats, strict=True)
    ]
    one.places = 1
    line.look()
    await asyncio.sleep(0)
    assert (first.done(), second.done(), third.done()) == (False, True, False)
    # Who has to wait again keeps its place in the order.
    again = await waiting(line, one, seats[1])
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


# ---- the order, and the tokens


def step(run: str, rank: Rank = Rank.GROUP, tokens: int = 100, **more: float) -> EngineRequest:
    placement = Placement(rank, run, work_left=more.get("left", 0.0), expected_tokens=tokens)
    return replace(chat(), placement=placement)


def plain(tokens: int) -> EngineRequest:
    return replace(chat(), placement=Placement(expected_tokens=tokens))


@asynccontextmanager
async def capped(**caps: int) -> AsyncIterator[Servers]:
    """A single with caps, before an engine that is never reached. Ends with nothing held."""
    async with engine(closed_port()) as inner:
        single = servers_of(inner, limits(**caps))
        yield single
        assert (
            single.servers[0].in_flight,
            single.servers[0].held.requests,
            single.servers[0].held.tokens,
            single.line.waiting,
        ) == (0, 0, 0, 0)


class Asking:
    """Requests that take places at a single, in the order in which they got them."""

    def __init__(self, single: Servers) -> None:
        self.single = single
        self.started: dict[str, Seat] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def asks(self, **asked: EngineRequest) -> None:
        for name, what in asked.items():
            self.tasks[name] = asyncio.create_task(self._start(name, what))
        await self.settle()

    async def _start(self, name: str, what: EngineRequest) -> None:
        seat = self.single.line.seat(what)
        await self.single.servers[0].take_slot(what, seat)
        self.started[name] = seat

    async def ends(self, *names: str) -> None:
        for name in names:
            self.single.servers[0].give_slot(self.started.pop(name))
        await self.settle()

    async def settle(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    @property
    def inside(self) -> list[str]:
        return list(self.started)


async def test_steps_start_by_class_and_then_by_what_is_left_of_their_runs() -> None:
    async with capped(max_in_flight=1) as single:
        line = Asking(single)
        await line.asks(
            first=plain(10),
            bulk=step("a", Rank.THROUGHPUT),
            long=step("b", left=900),
            short=step("c", left=300),
            waits=plain(10),
        )
        assert single.line.queued == {"latency": 1, "group": 2, "throughput": 1}
        for name in ("first", "waits", "short", "long", "bulk"):
            assert line.inside == [name]
            await line.ends(name)


async def test_what_the_gateway_asks_by_itself_lets_clients_pass() -> None:
    async with capped(max_in_flight=1) as single:
        line = Asking(single)
        await line.asks(first=chat(), judging=replace(chat(), background=True), client=chat())
        assert single.line.queued == {"latency": 1, "group": 0, "throughput": 1}
        for name in ("first", "client", "judging"):
            assert line.inside == [name]
            await line.ends(name)


async def test_tokens_in_flight_stay_below_their_cap_and_a_group_goes_in_parts() -> None:
    async with capped(tokens_in_flight=350) as single:
        line = Asking(single)
        await line.asks(**{f"{n}": step("a") for n in range(8)})
        assert line.inside == ["0", "1", "2"] and single.servers[0].held.tokens == 300
        await line.ends("1")
        assert line.inside == ["0", "2", "3"]
        await line.ends("0", "2", "3")
        assert line.inside == ["4", "5", "6"]
        await line.ends("4", "5", "6")
        await line.ends("7")


async def test_small_ones_do_not_keep_a_large_one_out_for_ever() -> None:
    async with capped(tokens_in_flight=350) as single:
        line = Asking(single)
        await line.asks(a=step("a"), b=step("a"), large=step("b", tokens=300, left=1), c=step("a"))
        assert line.inside == ["a", "b"]
        # A newcomer does not pass it either, though there is room.
        await line.asks(d=step("a"))
        await line.ends("a")
        assert line.inside == ["b"]
        await line.ends("b")
        assert line.inside == ["large"]
        await line.ends("large")
        await line.ends("c", "d")


async def test_beside_somebody_who_waits_bulk_work_has_the_lower_cap() -> None:
    async with capped(tokens_in_flight=1_000, latency_tokens_in_flight=250) as single:
        line = Asking(single)
        await line.asks(**{f"{n}": step("a") for n in range(5)})
        await line.asks(chat=plain(150), more=step("a"))
        assert line.inside == ["0", "1", "2", "3", "4", "chat"]
        await line.ends("0", "1", "2", "3")
        assert line.inside == ["4", "chat"]
        await line.ends("chat")
        assert line.inside == ["4", "more"]
        await line.ends("4", "more")


async def test_one_who_leaves_lets_those_behind_it_start() -> None:
    async with capped(tokens_in_flight=350) as single:
        line = Asking(single)
        await line.asks(a=step("a"), b=step("a"), large=step("b", tokens=300, left=1), c=step("a"))
        line.tasks["large"].cancel()
        await line.settle()
        assert line.inside == ["a", "b", "c"]
        await line.ends("a", "b", "c")


async def test_plain_calls_are_refused_when_the_line_is_full_and_steps_are_not() -> None:
    async with capped(max_in_flight=1, max_queued=1) as single:
        line = Asking(single)
        await line.asks(first=plain(1), a=step("r"), b=step("r"), waits=plain(1))
        assert single.line.waiting == 3
        with pytest.raises(Unavailable):
            await single.servers[0].take_slot(plain(1))
        assert single.admits(plain(1)).refusal is not None and single.admits(step("r")).admitted
        for name in ("first", "waits", "a", "b"):
            await line.ends(name)


async def test_a_step_that_waits_becomes_urgent_when_somebody_asks_for_it() -> None:
    async with capped(max_in_flight=1) as single:
        line = Asking(single)
        await line.asks(first=plain(1), early=step("a"), late=step("b", Rank.THROUGHPUT))
        single.line.move(lambda now: replace(now, rank=Rank.LATENCY) if now.run == "b" else now)
        await line.ends("first")
        assert line.inside == ["late"]
        await line.ends("late")
        await line.ends("early")


async def test_how_many_wait_is_told_by_class() -> None:
    async with capped(max_in_flight=1) as single:
        waiting = Counter[str]()
        single.line.on_change = lambda rank, more: waiting.update({rank.label: more})
        line = Asking(single)
        await line.asks(first=plain(1), a=step("a"), b=step("b", Rank.THROUGHPUT))
        assert waiting == {"group": 1, "throughput": 1}
        single.line.move(lambda now: replace(now, rank=Rank.LATENCY) if now.run == "b" else now)
        assert waiting == {"group": 1, "throughput": 0, "latency": 1} == dict(single.line.queued)
        line.tasks["a"].cancel()
        await line.settle()
        await line.ends("first")
        await line.ends("b")
        assert not any(waiting.values())


async def test_a_stream_takes_its_tokens_and_gives_them_back_when_it_fails() -> None:
    async with capped(tokens_in_flight=350) as single:
        with pytest.raises(Exception, match="connect"):
            async with single.stream(step("a")):
                raise AssertionError
        assert single.servers[0].held.requests == 0


def test_what_a_request_will_hold_is_estimated_from_its_texts_and_from_answers() -> None:
    assert expected_tokens(request(b"x" * 400)) == 101
    assert expected_tokens(chat()) == 1 + 4 + 512
    assert expected_tokens(chat(), 50.0) == 1 + 4 + 50
    assert expected_tokens(chat(max_tokens=20), 50.0) == 1 + 4 + 20
    assert expected_tokens(chat(max_completion_tokens=20, n=3)) == 1 + 4 + 60
    parts = [{"type": "text", "text": "x" * 40}, {"type": "image_url", "image_url": {"url": "y" * 10**6}}]
    assert expected_tokens(chat(messages=[{"role": "user", "content": parts}], max_tokens=1)) == 1 + 514 + 1
