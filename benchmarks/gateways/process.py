"""Starts a peer or the mock as a child process, waits until it is ready, reads its CPU time, and stops it for certain."""

from __future__ import annotations

import http.client
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import processes
from benchmarks.gateways.adapter import Peer, filled
from benchmarks.recorded import ROOT
from loadtest.errors import LoadError

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
            return processes.cpu_s(self._process.pid)
        except OSError:
            return None

    def stop(self) -> None:
        """End it and its whole process group."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                try:
                    os.killpg(self._process.pid, number)
                    self._process.wait(_GRACE_S)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue


@contextmanager
def running(peer: Peer, upstream: str, model: str, folder: Path) -> Iterator[Child]:
    """The peer, ready, in front of `upstream` (a URL without /v1). It is stopped at the end, whatever happens.

    Raises LoadError where it does not become ready; the error ends with the last lines of its output.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    values = {
        "port": str(processes.free_port()),
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
    environment.pop("PYTHONPATH", None)  # a peer of its own must not see our packages
    if "{python}" in peer.command:
        environment["PYTHONPATH"] = str(ROOT)
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
