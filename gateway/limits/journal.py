"""What a worker handed out and has not booked yet, where it outlives the worker: a small file, mapped into memory.

Every change is a few bytes written to memory that the kernel keeps when the process is killed. A lock on the file, which the
kernel lets go of at the process's end, tells others that the worker is dead, at once and without a clock.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
from pathlib import Path

from store.people.allowance import Held

_SLOT = struct.Struct("qqq")
_FIELDS = 3
_FIRST_SLOTS = 1024
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SUFFIX = ".journal"


class Journal:
    """A worker's own, open and locked. One thread at a time may use it."""

    def __init__(self, folder: Path, worker: str) -> None:
        """Makes the file. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = folder / f"{worker}{_SUFFIX}"
        # Under its name it is never seen unlocked: others would take it for a dead worker's.
        new = folder / f"{worker}.new"
        self._file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        new.rename(self._path)
        self._slots = _FIRST_SLOTS
        # Its blocks are there from now on: a write to memory that finds the disk full would kill the process.
        os.posix_fallocate(self._file, 0, self._slots * _SLOT.size)
        self._map = mmap.mmap(self._file, 0)
        self._view = memoryview(self._map).cast("q")
        self._free = list(range(self._slots - 1, -1, -1))

    def take_slot(self) -> int:
        """A slot that is all zeros. Raises OSError where the disk has no room for more of them."""
        if not self._free:
            more = self._slots
            os.posix_fallocate(self._file, 0, (self._slots + more) * _SLOT.size)
            self._view.release()
            self._map.resize((self._slots + more) * _SLOT.size)
            self._view = memoryview(self._map).cast("q")
            self._free = list(range(self._slots + more - 1, self._slots - 1, -1))
            self._slots += more
        slot = self._free.pop()
        self.note(slot, 0, 0, 0)
        return slot

    def give_slot(self, slot: int) -> None:
        """Nothing refers to the slot any more."""
        self._free.append(slot)

    def note(self, slot: int, settled: int, estimated: int, reserved: int) -> None:
        """How the slot's lease stands. What is spent is written before what is reserved goes: a death between the two counts
        a request twice, never not at all."""
        view, at = self._view, slot * _FIELDS
        view[at] = settled
        view[at + 1] = estimated
        view[at + 2] = reserved

    def reserved(self, slot: int, reserved: int) -> None:
        """The same where nothing was settled."""
        self._view[slot * _FIELDS + 2] = reserved

    def close(self, *, remove: bool) -> None:
        """Let go of the file; `remove` it where everything in it is booked."""
        if remove:
            self._path.unlink(missing_ok=True)
        self._view.release()
        self._map.close()
        os.close(self._file)


class DeadJournal:
    """A dead worker's, locked so that no other reads it meanwhile. A context manager; see `of_dead`."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file

    def __enter__(self) -> DeadJournal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def read(self) -> dict[int, Held]:
        """What it says, by slot."""
        with open(self._file, "rb", closefd=False) as file:
            data = file.read()
        whole = len(data) // _SLOT.size * _SLOT.size
        slots = enumerate(_SLOT.iter_unpack(data[:whole]))
        return {slot: Held(*kept) for slot, kept in slots if any(kept)}

    def remove(self) -> None:
        """Everything in it is booked."""
        self._path.unlink(missing_ok=True)


def of_dead(folder: Path, worker: str) -> DeadJournal | None:
    """The journal of a worker that is dead; None while it lives. Raises OSError; FileNotFoundError where there is none."""
    path = folder / f"{worker}{_SUFFIX}"
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    except OSError:
        os.close(file)
        raise
    return DeadJournal(path, file)


def leftover(folder: Path) -> list[str]:
    """The workers of whom a journal lies in the folder."""
    with contextlib.suppress(OSError):
        return [path.stem for path in folder.glob(f"*{_SUFFIX}")]
    return []


def boot_id() -> str:
    """Of this machine since it was started. Empty where the system does not tell."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return ""
