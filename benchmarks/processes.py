"""Processes that a benchmark starts: a port for each, waiting until it is ready, what it uses of the machine, its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_GRACE_S = 10.0


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class NotReady(RuntimeError):
    """A process ended, or took too long; the text ends with the last lines of its output."""


@contextmanager
def started(command: Sequence[str], log: Path, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run `command` in a process group of its own; its output goes to `log`. The group is ended with the block.

    Raises NotReady where there is no such program.
    """
    with log.open("ab") as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **more,
            )
        except OSError as error:
            raise NotReady(f"cannot start {command[0]!r}: {error.strerror or error}") from None
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(process.pid, number)
                    process.wait(_GRACE_S)


def wait_until(
    ready: Callable[[], bool],
    name: str,
    process: subprocess.Popen[bytes],
    log: Path,
    *,
    within_s: float,
    pause_s: float,
) -> None:
    """Ask `ready` every `pause_s` until it says so. Raises NotReady."""
    deadline = time.monotonic() + within_s
    while not ready():
        ended = process.poll() is not None
        if ended or time.monotonic() > deadline:
            why = "ended at once" if ended else f"was not ready within {within_s:g} s"
            last = log.read_bytes()[-2000:].decode("utf-8", "replace").strip()
            raise NotReady(f"{name} {why}; its last words: {last!r}")
        time.sleep(pause_s)


async def gateway_ready(url: str, process: subprocess.Popen[bytes], log: Path, *, within_s: float) -> None:
    """Wait until the gateway at `url` (without a path) is ready. Raises NotReady."""
    await asyncio.to_thread(
        wait_until, lambda: is_ready(url), "the gateway", process, log, within_s=within_s, pause_s=0.2
    )


def is_ready(url: str) -> bool:
    """Whether the gateway at `url` (without a path) says that it is."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/readyz", timeout=2) as got:
        return bool(got.status == 200)
    return False


def logged(log: Path) -> list[dict[str, Any]]:
    """Whole lines of a log that are JSON objects."""
    found = []
    for line in log.read_text(errors="replace").split("\n")[:-1]:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return [line for line in found if isinstance(line, dict)]


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
