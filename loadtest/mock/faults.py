"""Faults that the mock injects: by request header, or by a schedule of windows.

    http=503     that status and an OpenAI error body        reset        the connection is reset
    stall[=S]    silence for S seconds (a window: to its end) hang         no answer, ever
    cut[=N]      the answer breaks off after N tokens         slow=F       everything F times slower
    error        an error event in mid-stream                 garbage      200 with something that is not JSON
    html         200 with a web page

A window is written START+LENGTH:FAULT[@SHARE], in seconds after the first request: `2+2:stall`, `10+5:http=503@0.5`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

_KINDS = frozenset(["http", "reset", "stall", "hang", "cut", "slow", "error", "garbage", "html"])
_NEEDS_NUMBER = frozenset(["http", "slow"])


@dataclass(frozen=True)
class Fault:
    """A fault. `amount` is a status, seconds, tokens or a factor, depending on `kind`; -1: not given."""

    kind: str
    amount: float = -1.0


@dataclass(frozen=True)
class Window:
    """A fault that applies from `start_s` to `end_s` after the first request, to `share` of the requests."""

    start_s: float
    end_s: float
    fault: Fault
    share: float = 1.0


def parse_fault(text: str) -> Fault:
    """Reads `kind` or `kind=number`. Raises ValueError naming what would be right."""
    kind, equals, number = text.strip().partition("=")
    try:
        amount = float(number) if equals else -1.0
    except ValueError:
        amount = float("nan")
    if kind not in _KINDS or amount != amount or (kind in _NEEDS_NUMBER and not equals):
        raise ValueError(
            f"{text!r} is not a fault: write one of {', '.join(sorted(_KINDS))} (http=CODE, slow=FACTOR)"
        )
    if kind == "http" and not 400 <= amount <= 599:
        raise ValueError(f"{text!r}: the status of an http fault must be from 400 to 599")
    return Fault(kind, amount)


def parse_window(text: str) -> Window:
    """Reads `START+LENGTH:FAULT[@SHARE]`. Raises ValueError naming what would be right."""
    span, colon, rest = text.partition(":")
    start, plus, length = span.partition("+")
    what, at, share = rest.partition("@")
    try:
        start_s, length_s, part = float(start), float(length), float(share) if at else 1.0
    except ValueError:
        colon = ""
        start_s = length_s = part = 0.0
    if not (colon and plus) or start_s < 0 or length_s <= 0 or not 0 < part <= 1:
        raise ValueError(
            f"{text!r} is not a fault window: write START+LENGTH:FAULT[@SHARE], such as 2+2:stall@0.5"
        )
    return Window(start_s, start_s + length_s, parse_fault(what), part)


class Schedule:
    """Decides which fault, if any, a request gets."""

    def __init__(self, windows: tuple[Window, ...], seed: int = 0) -> None:
        self._windows = tuple(w for w in windows if not (w.fault.kind == "stall" and w.share == 1.0))
        self._stalls = tuple(w for w in windows if w.fault.kind == "stall" and w.share == 1.0)
        self._rng = random.Random(seed)

    def fault_at(self, elapsed_s: float) -> Fault | None:
        """The fault for a request that arrives `elapsed_s` after the first one."""
        for window in self._windows:
            if window.start_s <= elapsed_s < window.end_s and (
                window.share == 1.0 or self._rng.random() < window.share
            ):
                if window.fault.kind == "stall" and window.fault.amount < 0:
                    return Fault("stall", window.end_s - elapsed_s)
                return window.fault
        return None

    def earliest_write(self, elapsed_s: float) -> float:
        """When bytes due at `elapsed_s` may be sent: a stall of all requests delays them to the end of its window."""
        for window in self._stalls:
            if window.start_s <= elapsed_s < window.end_s:
                elapsed_s = window.end_s
        return elapsed_s
