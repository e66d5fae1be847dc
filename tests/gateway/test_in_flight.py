"""Who leads, who follows, and what is held for whom. The whole of it over sockets: tests/flow/test_line_single_flight.py."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from multidict import CIMultiDict

from engines.chat_json import read_chat_request
from engines.errors import StreamBroken
from gateway import in_flight
from gateway.in_flight import Flight, InFlight, form_of, takes_part
from gateway.send import Send
from router.asked import Arrival, Asked, Controls
from tests.gateway.collecting import Collected

KEY = b"k"
HEAD = {"Content-Type": "text/event-stream", "Set-Cookie": "a=b", "x-ratelimit-remaining-requests": "3"}


def asked(headers: dict[str, str] | None = None, **fields: Any) -> Asked:
    made = {"model": "m", "messages": [{"role": "user", "content": "Q?"}], "stream": True} | fields
    arrival = Arrival("id1", time.perf_counter(), time.time())
    return Asked(arrival, "/chat/completions", CIMultiDict(headers or {}), read_chat_request(b"", made))


FORM = form_of(asked())


async def said(flight: Flight) -> list[bytes]:
    with flight.followed():
        assert await flight.head_for(asked()) is not None
        return [chunk async for chunk in flight.chunks()]


def led(flight: Flight, gate: asyncio.Event, send: Send | None = None) -> asyncio.Future[str]:
    """An answer of two chunks, the second behind the gate."""

    async def answer(send: Send) -> str:
        write = await send.begin(200, CIMultiDict(HEAD))
        await write(b"one")
        await gate.wait()
        await write(b"two")
        await send.end()
        return "answered"

    return asyncio.ensure_future(flight.led(send or Collected(), answer))


async def test_one_leads_until_it_has_ended() -> None:
    flights, gate = InFlight(), asyncio.Event()
    flight = flights.lead_in(KEY, FORM)
    assert flight is not None and flights.leader_of(KEY, FORM) is flight
    assert flights.lead_in(KEY, FORM) is None and flights.lead_in(b"other", FORM) is not None
    leading = led(flight, gate)
    following = asyncio.ensure_future(said(flight))
    gate.set()
    assert await leading == "answered" and await following == [b"one", b"two"]
    assert flights.leader_of(KEY, FORM) is None


@pytest.mark.parametrize("controls", [Controls(no_store=True), Controls(no_cache=True)])
def test_who_wants_nothing_shared_takes_no_part(controls: Controls) -> None:
    one = asked()
    own = Asked(one.arrival, one.target, one.headers, one.chat, controls)
    assert not takes_part(own) and takes_part(one)


async def test_only_what_is_meant_for_everybody_is_shared_of_the_head() -> None:
    flight = InFlight().lead_in(KEY, FORM)
    assert flight is not None
    flight.begins(200, CIMultiDict(HEAD))
    assert await flight.head_for(asked()) == CIMultiDict({"Content-Type": "text/event-stream"})


@pytest.mark.parametrize(("status", "headers"), [(500, {}), (202, {}), (200, {"Cache-Control": "no-store"})])
async def test_what_may_not_be_replayed_is_not_shared(status: int, headers: dict[str, str]) -> None:
    flights = InFlight()
    flight = flights.lead_in(KEY, FORM)
    assert flight is not None
    flight.begins(status, CIMultiDict(headers))
    assert await flight.head_for(asked()) is None
    assert flights.leader_of(KEY, FORM) is None, "another one may lead"


async def test_an_answer_that_is_too_long_is_joined_no_more_and_held_for_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_flight, "_SHARED_BYTES", 5)
    flights = InFlight()
    followed, alone = flights.lead_in(KEY, FORM), flights.lead_in(b"alone", FORM)
    assert followed is not None and alone is not None
    for flight in (followed, alone):
        flight.begins(200, CIMultiDict(HEAD))
    following = asyncio.ensure_future(said(followed))
    await asyncio.sleep(0)
    for flight in (followed, alone):
        flight.feed(b"123")
        flight.feed(b"456")
        flight.feed(b"789")
        flight.ends()
    assert await following == [b"123", b"456", b"789"]
    assert flights.leader_of(KEY, FORM) is None and flights.leader_of(b"alone", FORM) is None
    assert not alone._chunks


async def test_what_broke_before_one_began_to_follow_is_not_followed() -> None:
    flight = InFlight().lead_in(KEY, FORM)
    assert flight is not None
    flight.begins(200, CIMultiDict(HEAD))
    flight.feed(b"one")
    flight.ends(StreamBroken("Cut."))
    assert await flight.head_for(asked()) is None


async def test_an_answer_that_dies_unseen_breaks_for_those_who_have_begun() -> None:
    flight, gate = InFlight().lead_in(KEY, FORM), asyncio.Event()
    assert flight is not None

    async def answer(send: Send) -> None:
        await (await send.begin(200, CIMultiDict(HEAD)))(b"one")
        await gate.wait()
        raise ZeroDivisionError

    send = Collected()
    leading = asyncio.ensure_future(flight.led(send, answer))
    following = asyncio.ensure_future(said(flight))
    await send.began.wait()
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(ZeroDivisionError):
        await leading
    with pytest.raises(StreamBroken):
        await following


async def test_a_reader_that_left_is_written_to_no_more() -> None:
    flight, gate, send = InFlight().lead_in(KEY, FORM), asyncio.Event(), Collected()
    assert flight is not None
    leading = led(flight, gate, send)
    await send.began.wait()
    following = asyncio.ensure_future(said(flight))
    await asyncio.sleep(0)
    send.gone = True
    gate.set()
    assert await following == [b"one", b"two"] and await leading == "answered"
    assert send.chunks == [b"one"] and not send.ended
