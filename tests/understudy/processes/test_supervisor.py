"""Workers that die are started again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from understudy.processes.supervisor import Supervisor


@pytest.fixture(autouse=True)
def _metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))


def _wait() -> int:
    signal.pause()
    return 0


def test_workers_that_died_together_wait_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause for each, and twice as long each time, would keep the last of four from its port for seconds."""
    supervisor = Supervisor(_wait, 4, grace_s=1)
    pauses: list[float] = []
    again: list[str] = []

    def start(run: Callable[[], int], name: str) -> None:
        again.append(name)
        supervisor._stopping = len(again) == 4

    for _ in range(4):
        supervisor._start(_wait, "worker")
    victims = list(supervisor._alive)
    for victim in victims[:3]:
        victim.kill()
        victim.join()

    def pause() -> None:
        pauses.append(supervisor._pause_s)
        victims[3].kill()
        victims[3].join()

    monkeypatch.setattr(supervisor, "_start", start)
    monkeypatch.setattr(supervisor, "_pause", pause)
    assert supervisor._watch() == 0
    assert again == ["worker"] * 4
    assert pauses == [0.5], "who died during the pause does not wait again"


def test_a_worker_that_cannot_start_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = Supervisor(_wait, 2, grace_s=1)
    supervisor._start(_wait, "worker")
    supervisor._start(lambda: 2, "worker")
    good, bad = supervisor._alive
    bad.join()
    assert supervisor._watch() == 2
    assert good.exitcode == -signal.SIGTERM and good.pid != os.getpid()
