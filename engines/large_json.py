"""JSON of large bodies in steps: one call on tens of megabytes would hold the interpreter, and the event loop, for long."""

from __future__ import annotations

from typing import Any

import orjson

_STEP = 256 * 1024
"""Characters of a string, or bytes of a body, that are worked on at once."""
_DEPTH = 8
"""Below so many levels nothing is looked for: messages and their parts lie higher."""


def outlined(value: Any, depth: int = _DEPTH) -> Any:
    """The same for orjson.dumps, which writes the same bytes of it, with its long strings written already."""
    if isinstance(value, str):
        return orjson.Fragment(_written(value)) if len(value) > _STEP else value
    if depth == 0 or not value:
        return value
    if isinstance(value, dict):
        return {name: outlined(each, depth - 1) for name, each in value.items()}
    if isinstance(value, list):
        return [outlined(each, depth - 1) for each in value]
    return value


def count(body: bytes, mark: bytes) -> int:
    """How often `mark`, one byte, is in `body`."""
    return sum(body.count(mark, start, start + _STEP) for start in range(0, len(body), _STEP))


def _written(text: str) -> bytes:
    steps = range(0, len(text), _STEP)
    return b'"%s"' % b"".join([orjson.dumps(text[start : start + _STEP])[1:-1] for start in steps])
