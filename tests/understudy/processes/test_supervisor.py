"""Workers that die are started again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from understudy.processes.supervisor import Crew, Supervisor


@pytest.fixture(autouse=True)
def _metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))


def _wait(*_: object) -> int:
    signal.pause()
    return 0


def test_workers_that_died_together_wait_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause for each, and twice as long each time, would keep the last of four from its port for seconds."""
    supervisor = Supervisor(Crew(_wait), 4, grace_s=1)
    pauses: list[float] = []
    again: list[int] = []

    def start(slot: int) -> None:
        again.append(slot)
        supervisor._stopping = len(again) == 4

    for slot in range(4):
        supervisor._start_worker(slot)
    victims = list(supervisor._children)
    for victim in victims[:3]:
        victim.kill()
        victim.join()

    def pause() -> None:
        pauses.append(supervisor._pause_s)
        victims[3].kill()
        victims[3].join()

    monkeypatch.setattr(supervisor, "_start_worker", start)
    monkeypatch.setattr(supervisor, "_pause", pause)
    assert supervisor._watch() == 0
    assert sorted(again) == [0, 1, 2, 3]
    assert pauses == [0.5], "who died during the pause does not wait again"


def test_a_worker_that_cannot_start_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = Supervisor(Crew(_wait), 2, grace_s=1)
    supervisor._start_worker(0)
    supervisor._crew = Crew(lambda *_: 2)
    supervisor._start_worker(1)
    good, bad = supervisor._children
    bad.join()
    assert supervisor._watch() == 2
    assert good.exitcode == -signal.SIGTERM and good.pid != os.getpid()
