"""Starts a peer or the mock as a child process, waits until it is ready, reads its CPU time, and stops it for certain."""

from __future__ import annotations

import http.client
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadtest.errors import LoadError
from loadtest.peers.adapter import Peer, filled

_GRACE_S = 5.0


class Child:
    """A running child process and its own children."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], values: dict[str, str]) -> None:
        self.name = name
        self.port = int(values["port"])
        self.values = values  # what was filled in for it
        self._process = process

    @property
    def ended(self) -> bool:
        """Whether it has stopped by itself."""
        return self._process.poll() is not None

    def cpu_s(self) -> float | None:
        """CPU seconds spent so far by it and all processes under it; None where the system does not say (no /proc)."""
        try:
            parents, spent = {}, {}
            for stat in Path("/proc").glob("[0-9]*/stat"):
                try:
                    fields = stat.read_text().rpartition(")")[2].split()
                except OSError:
                    continue  # it ended while we looked
                pid = int(stat.parent.name)
                parents[pid] = int(fields[1])
                spent[pid] = int(fields[11]) + int(fields[12])
        except (OSError, ValueError, IndexError):
            return None
        family, grown = {self._process.pid}, True
        while grown:
            more = {pid for pid, parent in parents.items() if parent in family} - family
            family |= more
            grown = bool(more)
        ticks = sum(spent.get(pid, 0) for pid in family)
        return ticks / os.sysconf("SC_CLK_TCK") if self._process.pid in spent else None

    def stop(self) -> None:
        """End it and its whole process group."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                try:
                    os.killpg(self._process.pid, number)
                    self._process.wait(_GRACE_S)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(peer: Peer, upstream: str, model: str, folder: Path) -> Iterator[Child]:
    """The peer, ready, in front of `upstream` (a URL without /v1). It is stopped at the end, whatever happens.

    Raises LoadError where it does not become ready; the error ends with the last lines of its output.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    values = {
        "port": str(free_port()),
        "upstream": upstream,
        "upstream_address": upstream.partition("://")[2],
        "config": str(folder / peer.config_name),
        "folder": str(folder),
        "python": sys.executable,
        "model": model,
        "secret": f"sk-{secrets.token_hex(32)}",
    }
    values["program"] = peer.found_at() or filled(peer.program, values)
    if peer.config:
        Path(values["config"]).write_text(filled(peer.config, values), encoding="utf-8")
    command = [filled(word, values) for word in peer.command]
    environment = {**os.environ, **{name: filled(value, values) for name, value in peer.env}}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[2]) if "{python}" in peer.command else ""
    if not environment["PYTHONPATH"]:
        del environment["PYTHONPATH"]  # a peer of its own must not see our packages
    log = folder / "output.log"
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
                cwd=folder,
            )
        except OSError as error:
            raise LoadError(f"{peer.name}: cannot start {command[0]!r}: {error.strerror or error}") from None
    child = Child(peer.name, process, values)
    try:
        _wait_until_ready(child, peer, log)
        yield child
    finally:
        child.stop()


def _wait_until_ready(child: Child, peer: Peer, log: Path) -> None:
    headers = {name: filled(value, child.values) for name, value in peer.headers}
    deadline = time.monotonic() + peer.ready_within_s
    while time.monotonic() < deadline:
        if child.ended:
            raise LoadError(f"{peer.name} ended at once; its last words: {_tail(log)}")
        connection = http.client.HTTPConnection("127.0.0.1", child.port, timeout=2.0)
        try:
            connection.request("GET", peer.ready_path, headers=headers)
            if connection.getresponse().status == 200:
                return
        except (OSError, http.client.HTTPException):
            pass  # not yet
        finally:
            connection.close()
        time.sleep(0.1)
    raise LoadError(
        f"{peer.name} was not ready within {peer.ready_within_s:g} s; its last words: {_tail(log)}"
    )


def _tail(log: Path) -> str:
    return repr(log.read_bytes()[-400:].decode("utf-8", "replace").strip())
