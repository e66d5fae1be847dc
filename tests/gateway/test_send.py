"""Who watches an answer is told of all of it, whichever way it is sent, and whoever has left."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from engines.errors import EngineError, StreamBroken
from gateway.send import Watched
from tests.gateway.collecting import Collected


class Watching:
    def __init__(self, *, goes_on: bool = False) -> None:
        self.told: list[object] = []
        self._goes_on = goes_on

    def begins(self, status: int, headers: CIMultiDict[str]) -> None:
        self.told.append(status)
        headers["x-seen"] = "yes"

    def feed(self, chunk: bytes) -> None:
        self.told.append(chunk)

    def ends(self, error: EngineError | None = None) -> None:
        self.told.append(error)

    def goes_on(self) -> bool:
        return self._goes_on


class Pushed(Collected):
    """One that takes chunks without a wait, until it is full."""

    full = False

    def push(self, chunk: bytes) -> bool:
        if not self.full:
            self.chunks.append(chunk)
        return not self.full


async def test_whole_streamed_and_pushed() -> None:
    watching, send = Watching(), Pushed()
    Watched(send, watching).whole(200, CIMultiDict(), b"all")
    assert watching.told == [200, b"all", None] and send.headers == {"x-seen": "yes"}
    watching, send = Watching(), Pushed()
    watched = Watched(send, watching)
    write = await watched.begin(200, CIMultiDict())
    await write(b"one")
    assert watched.push(b"two")
    send.full = True
    assert not watched.push(b"three")
    broken = StreamBroken("Cut.")
    await watched.break_off(broken)
    assert watching.told == [200, b"one", b"two", broken] and send.chunks[:2] == [b"one", b"two"]


async def test_a_reader_that_left_ends_it_unless_the_watcher_goes_on() -> None:
    for goes_on in (False, True):
        watching, send = Watching(goes_on=goes_on), Collected()
        watched = Watched(send, watching)
        write = await watched.begin(200, CIMultiDict())
        send.gone = True
        if not goes_on:
            with pytest.raises(ConnectionError):
                await write(b"one")
            continue
        await write(b"one")
        await write(b"two")
        assert not watched.push(b"three")
        await watched.end()
        assert watching.told == [200, b"one", b"two", None] and not send.ended
