"""Holds up what computes in a real engine: so an answer has a middle, and a queue fills while nothing is done.

A model this small answers before anybody has seen it at work, and where processors are few it keeps what sends from
running: an answer then leaves only once it is whole. Only servers that these tests started are held up.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.vllm.serving import Served

ARGUMENTS = ("--logits-processors", "paced:Paced")
"""With these, and `variables`, vLLM is started such that it can be slowed."""
_ENGINE_SIDE = Path(__file__).parent / "engine_side"


def variables(told: Path) -> dict[str, str]:
    """The environment of a vLLM that takes its time for each token while the file `told` is there."""
    return {"PYTHONPATH": str(_ENGINE_SIDE), "PACE_FILE": str(told)}


def file_of(folder: Path, port: int) -> Path:
    """The file that tells the server on that port to take its time; `folder` is where its log is."""
    return folder / f"slow-{port}"


def worker_of(served: Served) -> int:
    """The process that computes. Skips the test where the server is somebody else's: it may be on another machine."""
    return _child(_child(_ours(served), "EngineCore"), "Worker")


@contextmanager
def slowed(served: Served) -> Iterator[None]:
    """Each token takes it a fifth of a second, in which the processor is free for others. It may die meanwhile."""
    _ours(served)
    assert served.log is not None
    with slowed_by(file_of(served.log.parent, int(served.root.rpartition(":")[2]))):
        yield


@contextmanager
def slowed_by(told: Path) -> Iterator[None]:
    """The same, for whoever was started with `variables(told)`."""
    told.touch()
    try:
        yield
    finally:
        told.unlink()


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


def _ours(served: Served) -> int:
    """The process that was started."""
    if served.process is None:
        pytest.skip(f"the server at {served.url} was not started here: it cannot be held up")
    return served.process.pid


def _child(pid: int, name: str) -> int:
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=True
    )
    found = [line.split()[0] for line in listed.stdout.splitlines() if name in line]
    assert found, f"no {name} below {pid}"
    return int(found[0])
