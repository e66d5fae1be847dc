"""JSON of large bodies in steps: one call on tens of megabytes would hold the interpreter, and the event loop, for long."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

_LARGE_BYTES = 2**20
_STEP = 256 * 1024
"""Characters of a string, or bytes of a body, that are worked on at once."""
_WINDOW = 64 * 1024
_LONG_WINDOWS = 4
"""A string that fills so many windows is read by itself."""
_SAFE_CUT = re.compile(
    # Before an escape that is not the second half of a pair; behind what is too long without one to be in the middle of one;
    rb"(?<!\\)(?=\\(?!u[dD][c-fC-F]))|(?<=[ !#-\[\]-~]{12})"
    # between two characters of several bytes each.
    rb"|(?<=[\x80-\xbf])(?=[\xc0-\xff])"
)
_BACKSLASH = ord("\\")
_BACKSLASHES = re.compile(rb"\\*")
_WINDOW_BEFORE = 64
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


def dumped(fields: Mapping[str, Any], *, like: bytes = b"", large: bool = False) -> bytes:
    """A body of these fields, which is about as long as another, or `large`."""
    try:
        return orjson.dumps(outlined(dict(fields)) if large or len(like) > _LARGE_BYTES else fields)
    except TypeError:
        # Integers beyond 64 bits are legal in a body and must survive.
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def loads(body: bytes) -> Any:
    """Reads what orjson.loads reads, and raises what it raises; long strings are read apart and put in their places."""
    strings = list(_long_strings(body))
    if not strings:
        return orjson.loads(body)
    token = f"long-string-{secrets.token_hex(16)}-"
    around: list[bytes] = []
    end = 0
    for number, (first, last) in enumerate(strings):
        around += (body[end:first], f"{token}{number}".encode())
        end = last
    try:
        skeleton = orjson.loads(b"".join((*around, body[end:])))
        read = {f"{token}{number}": _read(body, *place) for number, place in enumerate(strings)}
    except orjson.JSONDecodeError:
        return orjson.loads(body)
    return skeleton if _put_back(skeleton, read) == len(read) else orjson.loads(body)


def is_escaped(body: bytes, at: int) -> bool:
    """Tells whether an odd number of backslashes stands before this position."""
    backslashes = 0
    while at > 0:
        before = body[max(0, at - _WINDOW_BEFORE) : at]
        run = len(before) - len(before.rstrip(b"\\"))
        backslashes += run
        if run < len(before):
            break
        at -= run
    return backslashes % 2 == 1


def count(body: bytes, mark: bytes) -> int:
    """How often `mark`, one byte, is in `body`."""
    return sum(body.count(mark, start, start + _STEP) for start in range(0, len(body), _STEP))


def _written(text: str) -> bytes:
    steps = range(0, len(text), _STEP)
    pieces = [orjson.dumps(text[start : start + _STEP])[1:-1] for start in steps]
    return b"".join((b'"', *pieces, b'"'))


def _long_strings(body: bytes) -> Iterator[tuple[int, int]]:
    """Finds where long strings stand between quotation marks: windows without a mark that begin inside a string."""
    inside, run, windows = False, 0, 0
    end = 0
    while end < len(body):
        start, end = end, _window_end(body, end)
        quotes = body[start:end].replace(rb"\\", b"").replace(rb"\"", b"").count(b'"')
        if quotes == 0:
            run = run if windows else start
            windows += 1
            continue
        if inside and windows >= _LONG_WINDOWS:
            yield _last_quote(body, run) + 1, _first_quote(body, start)
        windows = 0
        inside ^= quotes % 2 == 1


def _window_end(body: bytes, start: int) -> int:
    """The end of the window that begins at `start`: never behind a backslash, whose meaning would be lost."""
    end = min(len(body), start + _WINDOW)
    if body[end - 1] != _BACKSLASH:
        return end
    run = _BACKSLASHES.match(body, end)
    # What follows the run is escaped by it, or not.
    return min(len(body), run.end() + 1) if run is not None else end


def _first_quote(body: bytes, start: int) -> int:
    """The first quotation mark from `start` on that is not escaped; there is one."""
    at = body.index(b'"', start)
    while is_escaped(body, at):
        at = body.index(b'"', at + 1)
    return at


def _last_quote(body: bytes, end: int) -> int:
    """The last quotation mark before `end` that is not escaped; there is one."""
    at = body.rindex(b'"', 0, end)
    while is_escaped(body, at):
        at = body.rindex(b'"', 0, at)
    return at


def _read(body: bytes, start: int, end: int) -> str:
    """The string between two quotation marks. Raises orjson.JSONDecodeError."""
    pieces = []
    while start < end:
        cut = _SAFE_CUT.search(body, start + _STEP, end) if start + _STEP < end else None
        until = cut.start() if cut is not None else end
        pieces.append(orjson.loads(b'"%s"' % body[start:until]))
        start = until
    return "".join(pieces)


def _put_back(value: Any, strings: dict[str, str]) -> int:
    """Put the strings in the places of their names, wherever those are values. Returns how many places there were."""
    found, left = 0, [value]
    while left:
        item = left.pop()
        places = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
        for place, each in places:
            if isinstance(each, str):
                if each in strings:
                    item[place] = strings[each]
                    found += 1
            elif isinstance(each, dict | list):
                left.append(each)
    return found
