"""What benchmarks.soak reads of processes and files, and whether it grew."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

MOST_MIB = 1.0
"""By how much a process's memory may grow in 10,000 requests."""
MOST_FILES = 24
MOST_THREADS = 4
"""By how much the largest number of the last quarter may pass that of the one before: what is under way differs."""
MOST_FILE_MIB = 4.0
"""The same of the journal of limits and of the database's log of writes."""
_SURE = 1.96
"""Standard errors on either side of a slope: 95 %."""
_FEWEST = 8
"""Readings, for a slope."""


@dataclass(frozen=True)
class Slope:
    """Of a straight line through readings, with the interval it lies in with 95 %."""

    per: float
    low: float
    high: float


def slope(x: Sequence[float], y: Sequence[float]) -> Slope:
    """The least-squares line through readings that follow each other.

    The standard error is widened by the residuals' correlation of lag one, r: so many readings are worth (1 - r) / (1 + r)
    of them (Bartlett's formula), since memory that is up in one reading is still up in the next.
    """
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    if len(xs) < 3 or xs.max() <= xs.min():
        return Slope(0.0, -math.inf, math.inf)
    per, at_zero = np.polyfit(xs, ys, 1)
    rest = ys - (per * xs + at_zero)
    squares = float(rest @ rest)
    r = min(0.95, max(0.0, float(rest[1:] @ rest[:-1]) / squares)) if squares > 1e-12 else 0.0
    spread = float(((xs - xs.mean()) ** 2).sum())
    error = math.sqrt(squares / max(1, len(xs) - 2) / spread * (1 + r) / (1 - r))
    return Slope(float(per), float(per - _SURE * error), float(per + _SURE * error))


@dataclass
class Process:
    """Readings of one process, by how many requests it had answered."""

    name: str
    pid: int
    requests: list[float] = field(default_factory=list)
    rss_mib: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)

    def read(self, requests: float) -> None:
        """Raises OSError where the process has ended."""
        proc = Path(f"/proc/{self.pid}")
        pages = int((proc / "statm").read_text().split()[1])
        if not pages:
            raise ProcessLookupError(self.pid)
        threads, files = len(list((proc / "task").iterdir())), len(list((proc / "fd").iterdir()))
        self.requests.append(requests)
        self.rss_mib.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
        self.files.append(files)
        self.threads.append(threads)

    def grown(self) -> dict[str, Any]:
        """What changed in the second half; `ok` where nothing grew."""
        half = len(self.requests) // 2
        found = slope(self.requests[half:], self.rss_mib[half:])
        few = len(self.requests) - half < _FEWEST
        ok = few or (
            found.per * 10_000 <= MOST_MIB
            and _risen(self.files) <= MOST_FILES
            and _risen(self.threads) <= MOST_THREADS
        )
        return {
            "name": self.name,
            "requests": round(self.requests[-1]),
            "rss_mib": [round(self.rss_mib[half], 1), round(self.rss_mib[-1], 1)],
            "readings": [
                [count, round(mib, 1)]
                for count, mib in zip(self.requests[::10], self.rss_mib[::10], strict=True)
            ],
            "mib_per_10000": [round(10_000 * one, 2) for one in (found.low, found.per, found.high)],
            "files": [max(self.files[half:]), self.files[-1]],
            "threads": [max(self.threads[half:]), self.threads[-1]],
            "ok": ok,
            "told": "too few readings" if few else "flat" if ok else "GREW",
        }


@dataclass
class Size:
    """Readings of a file's size, or of several together. `bounded`: it is not to grow."""

    name: str
    folder: Path
    pattern: str
    bounded: bool = True
    mib: list[float] = field(default_factory=list)

    def read(self) -> None:
        """A file that is gone by now counts as empty."""
        size = 0
        for path in self.folder.rglob(self.pattern):
            with suppress(OSError):
                size += path.stat().st_size
        self.mib.append(size / 2**20)

    def grown(self) -> dict[str, Any]:
        """What changed in the second half."""
        half = len(self.mib) // 2
        ok = not self.bounded or _risen(self.mib) <= MOST_FILE_MIB
        return {
            "name": self.name,
            "mib": [round(self.mib[half], 2), round(max(self.mib[half:]), 2), round(self.mib[-1], 2)],
            "ok": ok,
            "told": "flat" if ok and self.bounded else "GREW" if not ok else "not bounded here",
        }


def _risen(readings: Sequence[float]) -> float:
    """By how much the largest of the last quarter passes the largest of the quarter before it."""
    half, quarter = len(readings) // 2, len(readings) * 3 // 4
    if not half < quarter < len(readings):
        return 0.0
    return max(readings[quarter:]) - max(readings[half:quarter])


def listening(pid: int) -> set[int]:
    """TCP ports that a process listens on. Raises OSError where it has ended."""
    ports: dict[str, int] = {}
    for name in ("tcp", "tcp6"):
        with suppress(FileNotFoundError):
            for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
                parts = line.split()
                if parts[3] == "0A":
                    ports[parts[9]] = int(parts[1].rpartition(":")[2], 16)
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            target = os.readlink(entry)
            if target.startswith("socket:[") and target[8:-1] in ports:
                found.add(ports[target[8:-1]])
    return found
