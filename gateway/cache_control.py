"""Reads `Cache-Control` and `Pragma` (RFC 9111 §5.2), of requests and of answers.

What cannot be read errs towards not storing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from multidict import MultiMapping

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_DIRECTIVE = re.compile(rf'[ \t]*(?:({_TOKEN})(?:=(?:({_TOKEN})|"((?:[^"\\]|\\.)*)"))?)?[ \t]*(?:,|\Z)')


class CacheControl(NamedTuple):
    """What the directives ask for."""

    no_store: bool = False
    """Also where some of them cannot be read."""
    no_cache: bool = False
    private: bool = False
    none_of_it_fresh: bool = False
    """`max-age=0`, or `s-maxage=0`: nothing that is stored is fresh enough."""

    @property
    def forbids_replay(self) -> bool:
        """Of an answer: whether it must not be given to another request."""
        return self.no_store or self.private or self.none_of_it_fresh


NOTHING_SAID = CacheControl()


def cache_control(headers: MultiMapping[str]) -> CacheControl:
    """All `Cache-Control` lines of a message as the one list that they are (RFC 9110 §5.3)."""
    lines = headers.getall("Cache-Control", ())
    if not lines:
        return NOTHING_SAID
    directives = _directives(", ".join(lines))
    if directives is None:
        return CacheControl(no_store=True)
    names = {name for name, _ in directives}
    ages = [value for name, value in directives if name in ("max-age", "s-maxage")]
    return CacheControl(
        no_store="no-store" in names or not all(age.isascii() and age.isdigit() for age in ages),
        no_cache="no-cache" in names,
        private="private" in names,
        none_of_it_fresh=any(not age.strip("0") for age in ages),
    )


def pragma_no_cache(headers: MultiMapping[str]) -> bool:
    """`Pragma: no-cache`, as HTTP/1.0 clients and some libraries say it."""
    return any(
        part.strip().lower() == "no-cache"
        for line in headers.getall("Pragma", ())
        for part in line.split(",")
    )


def _directives(text: str) -> list[tuple[str, str]] | None:
    """Names in lower case with their values, "" where there is none; None where the list cannot be read."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        directive = _DIRECTIVE.match(text, at)
        if directive is None:
            return None
        name, token, quoted = directive.groups()
        if name is not None:
            found.append((name.lower(), token or quoted or ""))
        at = directive.end()
    return found
