"""Processes that a benchmark starts: a free port for each, and what each and its children use of the machine."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def cpu_s(pid: int) -> float:
    """CPU seconds used so far by all threads, ended ones too, of a process and its children. OSError if it has ended."""
    # A process's POSIX CPU-time clock counts nanoseconds (clock_getcpuclockid(3)).
    return sum(time.clock_gettime((~one << 3) | 2) for one in _family(pid))


def rss_mib(pid: int) -> float:
    """Resident memory of a process and its children. OSError if it has ended."""
    pages = sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in _family(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                yield from _family(int(child))
