"""Finds the body whose framing breaks, and tells its reader, who would wait for ever: aiohttp tells nobody.

The bytes of a connection are read a second time, by llhttp in `httptools`, which judges nothing else.
"""

from __future__ import annotations

from aiohttp import StreamReader
from aiohttp.web import RequestPayloadError
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser


class Framing:
    """Of one connection."""

    def __init__(self) -> None:
        self._parser: HttpRequestParser | None = HttpRequestParser(self)
        self._in_body = False
        self._come = 0
        """How many requests have come, or begun to."""
        self._taken = 0
        """How many of them were taken up."""
        self._body: StreamReader | None = None
        """That of the last one taken up."""

    def feed(self, data: bytes) -> None:
        """Look at what has come."""
        if self._parser is None:
            return
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._parser, self._in_body = None, False
        except HttpParserError:
            self._parser = None
            self._tell()

    def take(self, body: StreamReader) -> None:
        """A request is taken up, the next of those that have come."""
        self._taken += 1
        self._body = body
        if self._parser is None:
            self._tell()

    def _tell(self) -> None:
        broken = self._in_body and self._taken == self._come
        if broken and self._body is not None and not self._body.is_eof():
            self._body.set_exception(RequestPayloadError("The request body is not valid HTTP."))

    # ---- by the parser

    def on_message_begin(self) -> None:
        """See httptools."""
        self._come += 1

    def on_headers_complete(self) -> None:
        """See httptools."""
        self._in_body = True

    def on_message_complete(self) -> None:
        """See httptools."""
        self._in_body = False
