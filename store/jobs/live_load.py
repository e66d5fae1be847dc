"""How many requests are in flight, and how far they are recorded, over all workers of a data folder: a few bytes per worker.

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

_WORD = struct.Struct("<dQd")
"""When it was said (seconds since the epoch), requests in flight, and to when what was answered is recorded
(time.monotonic): less than a cache line, written at once."""
_FOLDER = "live"
_STALE_S = 3.0


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
                self.say(0)
            hidden.rename(self._path)
        except BaseException:
            os.close(self._fd)
            hidden.unlink(missing_ok=True)
            raise

    def say(self, in_flight: int, recorded_to_s: float = 0.0) -> None:
        """Overwrite the report: a few microseconds, and no wait for a disk. Raises OSError.

        `recorded_to_s`: whatever the worker had answered by then (time.monotonic) is committed, or never will be.
        """
        os.pwrite(self._fd, _WORD.pack(time.time(), in_flight, recorded_to_s), 0)

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
    silent = sum(abs(time.time() - at_s) > _STALE_S for at_s, _, _ in words)
    return LiveLoad(len(words), sum(count for _, count, _ in words), silent)


def recorded_to_s(data_folder: Path) -> float:
    """Whatever any worker that lives had answered by then (time.monotonic) is committed, or never will be.

    Infinite where no worker reports. Those of dead workers are removed. Raises OSError.
    """
    return min((recorded_to_s for _, _, recorded_to_s in _words(data_folder)), default=math.inf)


def _words(data_folder: Path) -> Iterator[tuple[float, int, float]]:
    with contextlib.suppress(FileNotFoundError):
        for path in sorted((data_folder / _FOLDER).iterdir()):
            if not path.name.startswith(".") and (word := _read(path)) is not None:
                yield word


def _read(path: Path) -> tuple[float, int, float] | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            said = os.pread(fd, _WORD.size, 0)
            return _WORD.unpack(said) if len(said) == _WORD.size else (0.0, 0, 0.0)
        path.unlink(missing_ok=True)
        return None
    finally:
        os.close(fd)
