"""Takes the usage out of a stream whose client did not ask for it, where it was asked for upstream to count by.

The chunk that holds nothing else goes, and so does `"usage": null` in the others. No other byte changes.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from engines.sse import EventCutter

_NAME = b'"usage"'
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\r\n\r|\n\r\n")
_NULL = re.compile(rb',\s*"usage"\s*:\s*null|"usage"\s*:\s*null\s*,\s*')


class UsageStripper:
    """One stream's. Feed its chunks in order; at the end, `rest`."""

    __slots__ = ("_cutter", "_half_gone")

    def __init__(self) -> None:
        self._cutter = EventCutter()
        self._half_gone = False
        """An event went whose last line end may have its second half yet to come."""

    def __call__(self, chunk: bytes) -> bytes:
        """What of the chunk, and of what was held back, the client gets now; it may be nothing."""
        whole = self._cutter.whole(chunk)
        if self._half_gone and whole:
            self._half_gone = False
            whole = whole.removeprefix(b"\n")
        if _NAME not in whole or self._cutter.given_up:
            return whole
        shorter = _without(whole)
        self._half_gone = whole.endswith(b"\r") and not shorter.endswith(b"\r")
        return shorter

    def at_once(self, chunk: bytes) -> bytes | None:
        """The same of whole events where nothing is held back, and without a trace of them here; None for other chunks."""
        if self._cutter.holds or self._cutter.given_up or self._half_gone or not chunk.endswith(b"\n\n"):
            return None
        return _without(chunk) if _NAME in chunk else chunk

    def rest(self) -> bytes:
        """What is left when the stream has ended."""
        rest = self._cutter.rest()
        return _without(rest) if _NAME in rest else rest


def _without(events: bytes) -> bytes:
    kept, start = [], 0
    for end in _END.finditer(events):
        kept.append(_event(events[start : end.end()]))
        start = end.end()
    kept.append(_event(events[start:]))
    return b"".join(kept)


def _event(event: bytes) -> bytes:
    """One event as the client gets it; empty for one that holds the usage only."""
    if _NAME not in event:
        return event
    at = event.find(b"data:")
    data = event[at + 5 :] if at >= 0 else b""
    said = _object(data)
    if said is None or "usage" not in said:
        return event
    if said["usage"] is not None:
        # Before it the last half of another event's end may stand.
        return event[: event.startswith(b"\n")] if said.get("choices") == [] else event
    for found in _NULL.finditer(data):
        shorter = data[: found.start()] + data[found.end() :]
        less = _object(shorter)
        if (
            less is not None
            and "usage" not in less
            and less == {k: v for k, v in said.items() if k != "usage"}
        ):
            return event[: at + 5] + shorter
    return event


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        said = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return said if isinstance(said, dict) else None
