"""The measurements of each request: one row of numbers, with names as numbers. Rows are sent as raw doubles.

Client processes need only this module; numpy, which takes a while to import, is used where rows are added up
(loadtest.rows).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

COLUMNS = (
    "due_s",  # after the start of the run
    "late_s",  # how long after `due_s` the generator took it up: its own fault
    "held_s",  # how long it then waited for the cap on requests in flight: also the generator's
    "ttft_s",  # due to first content; NaN where there was none
    "latency_s",  # due to last byte, or to the moment it was given up
    "tpot_s",  # mean time per token after the first; NaN where there are fewer than two
    "tokens_in",  # the endpoint's own count; NaN where it gave none
    "tokens_out",
    "chunks",  # events with content
    "quality",  # 0..1; NaN where unknown
    "outcome",  # numbers into Names
    "engine",
    "cache",
    "model",
)
WIDTH = len(COLUMNS)
AT = {name: place for place, name in enumerate(COLUMNS)}
OK = 0  # the outcome "ok" has this number in every process


class Names:
    """Numbers strings in order of appearance, within one process."""

    def __init__(self) -> None:
        self.texts: list[str] = ["ok", ""]
        self._numbers: dict[str, int] = {"ok": OK, "": 1}

    def number(self, text: str) -> int:
        """The number of a text; a new one for a new text."""
        known = self._numbers.get(text)
        if known is None:
            known = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return known


@dataclass(slots=True)
class Batch:
    """What a client process has measured since its last batch. Times are `time.monotonic()` values."""

    worker: int
    rows: bytes = b""
    gaps_s: bytes = b""
    lags_s: bytes = b""  # how late the loop's own 10 ms tick was
    names: list[str] = field(default_factory=list)  # all of them, in order
    launched: int = 0
    in_flight: int = 0
    waiting: int = 0  # due, but held back by the cap on requests in flight
    connects: int = 0
    stale_retries: int = 0
    cpu_s: float = 0.0
    exhausted: bool = False  # the schedule has ended and all answers are in
    final: bool = False
    failure: str = ""


def new_doubles() -> array[float]:
    """An array of doubles."""
    return array("d")
