"""Sees to it that answers come in a content encoding that can be read here, too."""

from __future__ import annotations

from multidict import CIMultiDict

_READABLE = frozenset({"gzip", "deflate", "identity", "x-gzip"})


def accept_only_readable(headers: CIMultiDict[str]) -> None:
    """Ask upstreams for no content encoding that the recorder cannot read."""
    accepted = headers.get("Accept-Encoding")
    if accepted is None:
        return
    kept = [part for part in accepted.split(",") if part.partition(";")[0].strip().lower() in _READABLE]
    headers["Accept-Encoding"] = ",".join(kept) or "identity"
