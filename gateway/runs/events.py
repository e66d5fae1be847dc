"""Streams of events about variables and runs. `sequence_number` and `starting_after` are as in the Responses API.

The number of an event about a variable's text is how many characters of it have been told, so that any process can go on
from there, however the text came in pieces. Each attempt at the step counts from its own base: a text that begins anew after
its process died is told from its beginning, after an event that says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from engines.sse import DONE, encode_typed
from gateway.relay import relay_for
from gateway.runs.shown import no_value_told, variable
from gateway.send import SERVER, Write
from workflows.running.cell import Cell
from workflows.transform import as_text

_ATTEMPT = 2**32
IDLE_S = 15.0
"""A client is told at least so often that its stream is alive."""
IDLE = b": waiting\n\n"


class Events:
    """Writes events to a client."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._send = relay_for(request)
        self._write: Write | None = None

    async def begin(self, **headers: str) -> None:
        """Send the head."""
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        head = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "Server": SERVER, **told}
        self._write = await self._send.begin(200, CIMultiDict(head))

    async def send(self, event: dict[str, Any] | None) -> None:
        """Send one event; None: a comment, so that nobody on the way takes the stream for dead."""
        assert self._write is not None
        await self._write(IDLE if event is None else encode_typed(event))

    async def end(self) -> web.StreamResponse:
        """That was all."""
        assert self._write is not None
        await self._write(DONE)
        return self._send.response


async def deltas(cell: Cell, after: int = -1) -> AsyncIterator[dict[str, Any] | None]:
    """The events of a variable whose number is above `after`, as they come."""
    base = cell.attempt * _ATTEMPT
    told = 0
    if after < base:
        yield {"type": "variable.created", "sequence_number": base, "variable": _head(cell)}
    else:
        told = after - base
    cell.readers += 1
    try:
        while True:
            if cell.attempt * _ATTEMPT != base:
                base, told = cell.attempt * _ATTEMPT, 0
                yield {"type": "variable.restarted", "sequence_number": base, "variable": _head(cell)}
            text = cell.text
            if len(text) > told:
                piece, told = text[told:], len(text)
                yield {"type": "variable.delta", "sequence_number": base + told, "delta": piece}
                continue
            if cell.ended and cell.kept:
                break
            if not await changed(cell):
                yield None
    finally:
        cell.readers -= 1
    last = base + max(len(cell.text), 0) + 1
    if after < last:
        yield _last(cell, last)


async def pieces(cell: Cell) -> AsyncIterator[str | None]:
    """The text of a variable as it comes, until its end is committed; None where nothing came for a while."""
    told = 0
    while True:
        text = text_of(cell)
        if len(text) > told:
            piece, told = text[told:], len(text)
            yield piece
        elif cell.ended and cell.kept:
            return
        elif not await changed(cell):
            yield None


async def changed(cell: Cell) -> bool:
    """Whether anything of a variable has changed before its reader is to be told that its stream is alive."""
    try:
        async with asyncio.timeout(IDLE_S):
            await cell.changed()
    except TimeoutError:
        return False
    return True


def text_of(cell: Cell) -> str:
    """What a variable says so far; of a list its items, a line each."""
    return as_text(cell.value) if cell.value is not None else cell.text


def _head(cell: Cell) -> dict[str, Any]:
    return variable(cell) | {"value": None, "status": "streaming" if cell.ended else cell.state}


def _last(cell: Cell, number: int) -> dict[str, Any]:
    if cell.state == "ready":
        return {"type": "variable.done", "sequence_number": number, "variable": variable(cell)}
    return {
        "type": "variable.failed",
        "sequence_number": number,
        "variable": variable(cell),
        **no_value_told(cell.name or cell.id, cell.failure),
    }
