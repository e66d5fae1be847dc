"""The processes of benchmarks.overhead: started on a core of their own, watched through /proc, stopped by their own id."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import processes
from benchmarks.processes import free_port

_CORES = sorted(os.sched_getaffinity(0))
PINNED = len(_CORES) >= 2
LOAD_CORE, SERVER_CORE = ({_CORES[0]}, {_CORES[-1]}) if PINNED else (set(_CORES), set(_CORES))
"""What is measured has a core of its own; the load and the upstream share another."""


@dataclass(frozen=True)
class Server:
    """A running server process."""

    name: str
    pid: int
    port: int
    ready_s: float
    """Wall seconds from the start of the process until it answered."""
    process: subprocess.Popen[bytes]

    def cpu_s(self) -> float:
        """CPU seconds used so far by the process and its children."""
        return processes.cpu_s(self.pid)

    def rss_mib(self) -> float:
        """Resident memory of the process and its children."""
        return processes.rss_mib(self.pid)


def answers(port: int, path: str) -> bool:
    """Whether `GET path` gives 200."""
    try:
        with _asked(port, path) as sock:
            return sock.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def fetch(port: int, path: str) -> str:
    """The answer to `GET path`, head and body, from a server that closes the connection when asked to."""
    with _asked(port, path) as sock:
        parts = []
        while part := sock.recv(65536):
            parts.append(part)
    return b"".join(parts).decode()


def _asked(port: int, path: str) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=10)
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n".encode())
    return sock


def bypassed(server: Server) -> dict[str, float]:
    """Stages gone without, by name, from the gateway's own metrics."""
    return counted(server, "understudy_bypassed_total")


def counted(server: Server, series: str) -> dict[str, float]:
    """A series with one label, by the label's values, from the gateway's own metrics; nothing where there is none."""
    lines = fetch(server.port, "/metrics").splitlines()
    counts = (line.rpartition(" ") for line in lines if line.startswith(series + "{"))
    return {name.partition('="')[2].rstrip('"}'): float(value) for name, _, value in counts}


@contextmanager
def started(
    name: str, command: list[str], port: int, log: Path, *, ready_path: str, core: set[int] | None
) -> Iterator[Server]:
    """Run `command` until the block ends; its output goes to `log`. Raises processes.NotReady."""
    began = time.perf_counter()
    pinned = (lambda: os.sched_setaffinity(0, core)) if core else None
    with processes.started(command, log, preexec_fn=pinned) as process:
        processes.wait_until(
            lambda: answers(port, ready_path), name, process, log, within_s=60, pause_s=0.003
        )
        yield Server(name, process.pid, port, time.perf_counter() - began, process)


def upstream(folder: Path) -> AbstractContextManager[Server]:
    """The mock upstream, on the load's core."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.overhead.upstream", str(port)]
    return started("upstream", command, port, folder / "upstream.log", ready_path="/", core=LOAD_CORE)


def bare_relay(folder: Path, upstream_port: int) -> AbstractContextManager[Server]:
    """The yardstick."""
    port = free_port()
    base = f"http://127.0.0.1:{upstream_port}"
    command = [sys.executable, "-m", "benchmarks.overhead.relay_bare", base, str(port)]
    return started("relay", command, port, folder / "relay.log", ready_path="/", core=SERVER_CORE)


def gateway(
    name: str, arguments: list[str], folder: Path, *, pinned: bool = True, admin: bool = False
) -> AbstractContextManager[Server]:
    """The gateway as its users run it, with the log that is on by default going to a file."""
    port = free_port()
    executable = Path(sys.executable).with_name("understudy")
    pages = "on" if admin else "off"
    command = [str(executable), "serve", *arguments, "--admin", pages, "--port", str(port), "--grace", "2"]
    log = folder / f"{name}.log"
    core = SERVER_CORE if pinned else None
    return started(name, command, port, log, ready_path="/readyz", core=core)
