"""Reads paths as the most forgiving server behind this one would, so that no spelling of a path leads around a handler."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

from engines.errors import RequestError

_ROUNDS = 3
"""How often a path is percent-decoded: once per server it may pass through. A limit, since each round reads it all."""
_PATH_ENDS = re.compile("[?#]")
_DOTS = frozenset({".", ".."})
_LONGEST_KNOWN = 128
"""A longer path is read anew each time: a client must not fill the memory."""


def canonical(path: str) -> str:
    """`path` percent-decoded, without empty segments, `;parameters` and a slash at its end.

    For choosing a handler only: what is sent on stays as it came. Raises RequestError (400) for a `.` or `..` segment, in
    any spelling, which an upstream might resolve to a place outside its base URL.
    """
    return _known(path) if len(path) <= _LONGEST_KNOWN else _canonical(path)


def _canonical(path: str) -> str:
    for _ in range(_ROUNDS):
        if "%" not in path:
            break
        path = unquote(path, "latin-1")
    whole = path.replace("\\", "/")
    path = _PATH_ENDS.split(whole, maxsplit=1)[0]
    segments = [segment.partition(";")[0] for segment in path.split("/")]
    # Behind a '?' that was encoded the path goes on for whoever decodes it later.
    behind = _PATH_ENDS.sub("/", whole[len(path) :]).split("/")
    if not _DOTS.isdisjoint(segments) or not _DOTS.isdisjoint(each.partition(";")[0] for each in behind):
        raise RequestError(
            "The path has a '.' or '..' segment, which is not passed on. Send the path that is meant.",
            code="invalid_path",
        )
    return "/" + "/".join(filter(None, segments))


_known = lru_cache(maxsize=256)(_canonical)


def origin_form(target: str) -> str:
    """A raw request target without the scheme and host that an absolute-form one carries (RFC 9112 §3.2.2)."""
    if target.startswith("/"):
        return target
    scheme, separator, rest = target.partition("://")
    if separator and scheme.isalpha():
        authority = rest.partition("?")[0].partition("/")[0]
        return rest[len(authority) :] or "/"
    return "/" + target if target != "*" else target
