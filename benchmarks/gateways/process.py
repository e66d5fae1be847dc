"""Starts a peer or the mock as a child process, waits until it is ready, reads its CPU time, and stops it for certain."""

from __future__ import annotations

import http.client
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks import processes
from benchmarks.gateways.adapter import Peer, filled
from benchmarks.recorded import ROOT


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


@contextmanager
def running(peer: Peer, upstream: str, model: str, folder: Path) -> Iterator[Child]:
    """The peer, ready, in front of `upstream` (a URL without /v1). It is stopped at the end, whatever happens.

    Raises processes.NotReady where it does not become ready.
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
    with processes.started(command, log, env=environment, cwd=folder) as process:
        child = Child(peer.name, process, values)
        ready = partial(_is_ready, child, peer)
        processes.wait_until(ready, peer.name, process, log, within_s=peer.ready_within_s, pause_s=0.1)
        yield child


def _is_ready(child: Child, peer: Peer) -> bool:
    headers = {name: filled(value, child.values) for name, value in peer.headers}
    connection = http.client.HTTPConnection("127.0.0.1", child.port, timeout=2.0)
    try:
        connection.request("GET", peer.ready_path, headers=headers)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False  # not yet
    finally:
        connection.close()
