"""How deep a request goes: the functions of ours between the way in and the upstream's client, and one tail per stream."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from engines.answers.tail import Tail
from engines.connection import Connection, Origin
from tests.flow.line import line, upstream

MOST_FRAMES = 10
ROOT = Path(__file__).parent.parent.parent
ROOMS = ("gateway", "router", "engines", "learning", "store", "understudy")
CONFIG: dict[str, Any] = {
    "engines": {"large": {"model": "gpt-4o"}},
    "models": {"gpt-4o": {"engines": ["large"], "policy": "fixed"}},
}


def own_frames(frame: FrameType | None) -> list[str]:
    """The functions of our rooms on the stack, outermost first."""
    found: list[str] = []
    while frame is not None:
        code = frame.f_code
        if any(code.co_filename.startswith(f"{ROOT / room}/") for room in ROOMS):
            found.append(f"{Path(code.co_filename).name}:{code.co_qualname}")
        frame = frame.f_back
    return found[::-1]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_reaches_the_socket_through_few_functions(
    monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    seen: list[list[str]] = []
    asks = Origin.ask

    async def noting(self: Origin, *args: Any, **options: Any) -> Connection:
        seen.append(own_frames(sys._getframe()))
        return await asks(self, *args, **options)

    monkeypatch.setattr(Origin, "ask", noting)
    async with upstream() as behind:
        engines = {"large": {"base_url": behind.url, "model": "gpt-4o"}}
        async with line(CONFIG | {"engines": engines}) as made:
            got = await made.chat("How deep?", stream=stream)
    assert got.status == 200
    (frames,) = seen
    # In place of two frames of aiohttp's.
    assert frames.pop(0) == "plain.py:PlainConnection._answered"
    assert len(frames) <= MOST_FRAMES, "\n".join(frames)


async def test_every_chunk_of_a_stream_feeds_one_tail_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: Counter[int] = Counter()
    kept: list[Tail] = []
    feed = Tail.feed

    def counting(self: Tail, chunk: bytes) -> None:
        kept.append(self)
        fed[id(self)] += chunk.count(b"\n\n")
        feed(self, chunk)

    monkeypatch.setattr(Tail, "feed", counting)
    async with upstream() as behind:
        engines = {"large": {"base_url": behind.url, "model": "gpt-4o"}}
        async with line(CONFIG | {"engines": engines}) as made:
            got = await made.chat("How deep?", stream=True)
    assert got.status == 200
    assert list(fed.values()) == [got.body.count(b"\n\n")]
