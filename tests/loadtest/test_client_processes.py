"""Several client processes carry out one plan; none outlives its parent, none's loss goes unnoticed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from loadtest.arrivals import Arrivals
from loadtest.client import due_times
from loadtest.client_processes import ClientProcesses
from loadtest.errors import WorkerDied
from loadtest.plan import LoadPlan, Target, WorkloadSpec
from loadtest.records import AT, Batch
from loadtest.rows import rows_of
from loadtest.worker import Frames, frame


async def test_two_processes_share_one_schedule_without_overlap(mock: Any) -> None:
    plan = LoadPlan(
        Target(mock.url), WorkloadSpec(model="m"), Arrivals("poisson", 300.0), duration_s=1.0, processes=2
    )
    batches: list[Batch] = []
    await ClientProcesses(plan, batches.append).run()
    due = np.concatenate([rows_of(batch.rows)[:, AT["due_s"]] for batch in batches])
    assert sorted(due) == pytest.approx(list(due_times(plan)), abs=1e-6)
    assert {batch.worker for batch in batches if batch.rows} == {0, 1}


async def test_a_process_that_dies_is_reported(mock: Any) -> None:
    plan = LoadPlan(Target(mock.url), WorkloadSpec(model="m"), Arrivals("constant", 50.0), duration_s=20.0)
    killed = False

    def take(batch: Batch) -> None:
        nonlocal killed
        if not killed:
            killed = True
            for process in fleet._processes:
                os.kill(process.pid, signal.SIGKILL)

    fleet = ClientProcesses(plan, take)
    with pytest.raises(WorkerDied, match="client process 0"):
        await fleet.run()


def test_a_client_process_leaves_when_its_socket_closes() -> None:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", "loadtest.worker", str(theirs.fileno())], pass_fds=[theirs.fileno()]
    )
    theirs.close()
    plan = LoadPlan(Target("http://127.0.0.1:9"), WorkloadSpec(model="m"), duration_s=60.0)
    with ours:
        ours.sendall(frame(("plan", plan, 0)))
        assert ours.recv(4)  # it is ready
    assert process.wait(60) is not None


def test_messages_survive_being_cut_anywhere() -> None:
    data = frame(("a", 1)) + frame(("b", "x" * 1000))
    for size in (1, 3, 7, 500, 5000):
        frames = Frames()
        found = [m for at in range(0, len(data), size) for m in frames.feed(data[at : at + size])]
        assert found == [("a", 1), ("b", "x" * 1000)]
