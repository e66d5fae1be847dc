"""How all workers of a data folder stand: requests in flight, how far they are recorded, capacity. A few bytes per worker.

Each worker has a file. It is locked for as long as it lives, so that what a dead worker reported last does not count, and a
worker too busy to report is counted as busy.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import secrets
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SHED = 5
"""Kinds of work that a worker may shed (router.shedding.ORDER)."""
_WORD = struct.Struct(f"<dQdffB{SHED}I")
"""When it was said (seconds since the epoch), and the fields of Standing: less than a cache line, written at once."""
_FOLDER = "live"
_STALE_S = 3.0


class Standing(NamedTuple):
    """How a worker stands, by its own word."""

    in_flight: int = 0
    recorded_to_s: float = 0.0
    """Whatever it had answered by then (time.monotonic) is committed, or never will be."""
    core_share: float = 0.0
    """Of one core, in use by the whole worker: may exceed 1."""
    capacity_per_s: float = 0.0
    """Requests a second until latency breaks, as estimated; 0: not known yet."""
    shed_level: int = 0
    """How many kinds of work it leaves out now."""
    shed: tuple[int, ...] = (0,) * SHED
    """How many pieces of each kind it left out."""


class LoadReport:
    """One worker's report of its own load. Any thread may write it, one at a time."""

    def __init__(self, data_folder: Path) -> None:
        """Raises OSError."""
        folder = data_folder / _FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        name = secrets.token_hex(8)
        self._path = folder / name
        hidden = folder / f".{name}"
        self._fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # Locked and filled before it gets its name: a reader takes what is not locked for dead.
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(OSError):
                # Without room for a word it is still known that this worker lives, and has said nothing.
                self.say(Standing())
            hidden.rename(self._path)
        except BaseException:
            os.close(self._fd)
            hidden.unlink(missing_ok=True)
            raise

    def say(self, standing: Standing) -> None:
        """Overwrite the report: a few microseconds, and no wait for a disk. Raises OSError."""
        *fields, shed = standing
        os.pwrite(self._fd, _WORD.pack(time.time(), *fields, *shed), 0)

    def close(self) -> None:
        """Delete the report."""
        self._path.unlink(missing_ok=True)
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class LiveLoad:
    """The load over all workers."""

    workers: int
    in_flight: int
    silent: int
    """Workers that live and have reported nothing for seconds: too busy even for that."""


def live_load(data_folder: Path) -> LiveLoad:
    """Read every worker's report; those of dead workers are removed. No load where there is none. Raises OSError."""
    words = list(_words(data_folder))
    # Either way: a clock that was set is corrected by the next word.
    silent = sum(abs(time.time() - at_s) > _STALE_S for at_s, _ in words)
    return LiveLoad(len(words), sum(worker.in_flight for _, worker in words), silent)


def recorded_to_s(data_folder: Path) -> float:
    """Whatever any worker that lives had answered by then (time.monotonic) is committed, or never will be.

    Infinite where no worker reports. Those of dead workers are removed. Raises OSError.
    """
    return min((worker.recorded_to_s for _, worker in _words(data_folder)), default=math.inf)


def standings(data_folder: Path) -> list[Standing]:
    """How each worker that lives stands. Those of dead workers are removed. Raises OSError."""
    return [worker for _, worker in _words(data_folder)]


def _words(data_folder: Path) -> Iterator[tuple[float, Standing]]:
    with contextlib.suppress(FileNotFoundError):
        for path in sorted((data_folder / _FOLDER).iterdir()):
            if not path.name.startswith(".") and (word := _read(path)) is not None:
                yield word


def _read(path: Path) -> tuple[float, Standing] | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            said = os.pread(fd, _WORD.size, 0)
            if len(said) != _WORD.size:
                return 0.0, Standing()
            at_s, in_flight, recorded_to_s, core_share, capacity_per_s, level, *shed = _WORD.unpack(said)
            return at_s, Standing(in_flight, recorded_to_s, core_share, capacity_per_s, level, tuple(shed))
        path.unlink(missing_ok=True)
        return None
    finally:
        os.close(fd)
