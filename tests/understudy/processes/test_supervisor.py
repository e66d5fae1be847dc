"""Workers that die are started again."""

from __future__ import annotations

import os
import signal
import socket
import time
from multiprocessing.connection import Connection
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


def test_what_dies_or_is_ordered_during_a_reload_is_seen_to() -> None:
    """A second signal neither ends the wait for the new workers nor is lost; who dies meanwhile is replaced."""

    def slow(sock: socket.socket | None, line: Connection) -> int:
        time.sleep(0.5)
        line.send(("ready",))
        return _wait()

    supervisor = Supervisor(Crew(_wait), 2, grace_s=1, reread=lambda: Crew(slow))
    first, second = (supervisor._start_worker(slot) for slot in range(2))
    supervisor._hang_up(signal.SIGHUP, None)
    second.process.kill()
    verdict = supervisor._reload()
    living = [child for child in supervisor._children.values() if child.kill_at is None]
    assert verdict.done and supervisor._hung_up and supervisor._due_in_s() == 0.0
    assert first not in living and {child.slot for child in living if child.process.is_alive()} == {0, 1}
    supervisor._stop_all()


def test_a_worker_that_cannot_start_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = Supervisor(Crew(_wait), 2, grace_s=1)
    supervisor._start_worker(0)
    supervisor._crew = Crew(lambda *_: 2)
    supervisor._start_worker(1)
    good, bad = supervisor._children
    bad.join()
    assert supervisor._watch() == 2
    assert good.exitcode == -signal.SIGTERM and good.pid != os.getpid()
