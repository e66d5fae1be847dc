"""Holds up what computes in a real engine, by signals: so an answer has a middle, and a queue fills while nothing is done.

A model this small answers before anybody has seen it at work, and where processors are few it keeps what sends from
running: an answer then leaves only once it is whole. Only processes of a server that these tests started are signalled.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from benchmarks.vllm_serving import Served

_STOPPED_S, _LET_GO_S = 0.25, 0.005
"""A few tokens are made in each turn: an answer of hundreds takes a minute, whatever the machine."""


def worker_of(served: Served) -> int:
    """The process that computes. Skips the test where the server is somebody else's: it may be on another machine."""
    if served.process is None:
        pytest.skip(f"the server at {served.url} was not started here: its processes cannot be held up")
    return _child(_child(served.process.pid, "EngineCore"), "Worker")


@contextmanager
def slowed(served: Served) -> Iterator[None]:
    """It computes a fiftieth of the time. It may die meanwhile."""
    worker = worker_of(served)
    over = threading.Event()

    def hold_up() -> None:
        with suppress(ProcessLookupError):
            while not over.wait(_LET_GO_S):
                os.kill(worker, signal.SIGSTOP)
                over.wait(_STOPPED_S)
                os.kill(worker, signal.SIGCONT)

    thread = threading.Thread(target=hold_up)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def held(served: Served) -> Iterator[Callable[[], None]]:
    """It computes nothing, though its server goes on taking and refusing requests, until what this yields is called."""
    worker = worker_of(served)

    def let_go() -> None:
        os.kill(worker, signal.SIGCONT)

    os.kill(worker, signal.SIGSTOP)
    try:
        yield let_go
    finally:
        let_go()


def _child(pid: int, name: str) -> int:
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=True
    )
    found = [line.split()[0] for line in listed.stdout.splitlines() if name in line]
    assert found, f"no {name} below {pid}"
    return int(found[0])
