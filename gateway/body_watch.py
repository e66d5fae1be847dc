"""Ends the wait for a request body that does not come: a client that pauses for too long holds nothing any more."""

from __future__ import annotations

import asyncio

from aiohttp import StreamReader

from engines.errors import RequestError

_LOOKS = 4
"""How often a gap is looked at before it is too long."""


class BodyWatch:
    """Looks at one request body now and then until it is whole, or its request has ended.

    Whoever waits for it gets a RequestError 408 after `gap_s` without a byte. While nobody waits, as when an upstream takes
    an upload slowly, the pause is not the client's.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, body: StreamReader, gap_s: float) -> None:
        self._loop = loop
        self._body = body
        self._gap_s = gap_s
        self._received = body.total_bytes
        self._since = loop.time()
        self._look_later()

    def _look_later(self) -> None:
        self._loop.call_later(self._gap_s / _LOOKS, self._look)

    def _look(self) -> None:
        body, now = self._body, self._loop.time()
        if body.is_eof() or body.exception() is not None:
            return
        # There is no public way to see that somebody waits.
        if body.total_bytes != self._received or body._waiter is None:
            self._received, self._since = body.total_bytes, now
        elif now - self._since >= self._gap_s:
            body.set_exception(
                RequestError(
                    f"Nothing came of the request body for {self._gap_s:g} s.",
                    status=408,
                    code="request_timeout",
                )
            )
            return
        self._look_later()
