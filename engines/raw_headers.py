"""Lets a request's header values that are no UTF-8 leave for an upstream with the very bytes that came.

aiohttp reads such bytes as lone surrogates (PEP 383), and drops those silently when it writes a head. It has no seam for its
writer, so its client is given this one by name; a head of ASCII alone is written by aiohttp's own code.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine
from typing import Any

from aiohttp import client_reqrep
from aiohttp.http_writer import StreamWriter
from multidict import CIMultiDict

_CONTROLS = re.compile(r"[\0-\x08\x0a-\x1f\x7f]")


class HeadWriter(StreamWriter):
    """aiohttp's writer of a request, for header values in any encoding."""

    def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> Coroutine[Any, Any, None]:
        """Write the head. Raises ValueError, when awaited, for a control character: it could begin a header of its own."""
        if all(map(str.isascii, headers.values())):
            return super().write_headers(status_line, headers)
        return self._write_as_came(status_line, headers)

    async def _write_as_came(self, status_line: str, headers: CIMultiDict[str]) -> None:
        lines = [status_line, *(f"{name}: {value}" for name, value in headers.items())]
        if any(map(_CONTROLS.search, lines)):
            raise ValueError("a header holds a control character")
        self._headers_written = False
        self._headers_buf = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")


def install() -> None:
    """Have aiohttp's client write its requests' heads so."""
    client_reqrep.StreamWriter = HeadWriter  # type: ignore[attr-defined]
