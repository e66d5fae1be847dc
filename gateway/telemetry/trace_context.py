"""The `traceparent` of a client (W3C Trace Context, level 1), continued; a new trace where there is none."""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Callable

from multidict import MultiMapping

from engines.tracing import Trace

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_SAMPLED = "01"
_NOT_SAMPLED = "00"
_TRACE_BYTES = 16


def continued(
    sampled_share: float, draw: Callable[[], float] = random.random
) -> Callable[[MultiMapping[str]], Trace]:
    """What makes the trace of a request from its headers.

    The client decides whether its own traces are sampled; of those that begin here, `sampled_share` are.
    """

    def trace_of(headers: MultiMapping[str]) -> Trace:
        given = headers.getall("traceparent", ())
        found = _parts(given[0]) if len(given) == 1 else None
        if found is not None:
            trace_id, parent_id, flags = found
            return Trace(trace_id, parent_id, flags)
        flags = _SAMPLED if sampled_share >= 1 or draw() < sampled_share else _NOT_SAMPLED
        return Trace(secrets.token_hex(_TRACE_BYTES), "", flags)

    return trace_of


def _parts(header: str) -> tuple[str, str, str] | None:
    """Trace id, parent id and flags; None where the header does not say them."""
    match = _FORM.fullmatch(header.strip(" \t"))
    if match is None:
        return None
    version, trace_id, parent_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more) or not trace_id.strip("0") or not parent_id.strip("0"):
        return None
    # Of a later version only the flags known here go on.
    return trace_id, parent_id, flags if version == "00" else f"{int(flags, 16) & 1:02x}"
