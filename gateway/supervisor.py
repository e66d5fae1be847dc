"""Workers on one port and the learner beside them: started, watched, restarted, stopped together. Knows nothing of requests.

Each worker has its own event loop, connections and indexes; the database is what they share (docs/operations.md).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType

from gateway.log import log

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_LEARNER_PAUSE_S = 5.0
_LEARNER_GRACE_S = 5.0
_WORKER, _LEARNER = "worker", "learner"
_STEADY_S = 60.0
"""A worker that lived this long was healthy: its successor starts without a pause."""


class Supervisor:
    """Runs `work` in `workers` processes, and `learn` in one, until told to stop."""

    def __init__(
        self, work: Callable[[], int], workers: int, *, grace_s: float, learn: Callable[[], int] | None = None
    ) -> None:
        self._work = work
        self._workers = workers
        self._learn = learn
        self._grace_s = grace_s
        self._stopping = False
        self._alive: dict[BaseProcess, float] = {}
        self._pause_s = 0.0
        self._learn_again_at = 0.0
        """When the learner, having died, is started again (time.monotonic); nobody waits for that."""

    def run(self) -> int:
        """Supervise until SIGTERM or SIGINT. Returns the process's exit status."""
        with tempfile.TemporaryDirectory(prefix="understudy-metrics-") as folder:
            if self._workers > 1:
                # prometheus_client reads this when it is first imported, which the workers do after the fork.
                os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
            for signum in (signal.SIGTERM, signal.SIGINT):
                signal.signal(signum, self._stop)
            for _ in range(self._workers):
                self._start(self._work, _WORKER)
            if self._learn is not None:
                self._start(self._learn, _LEARNER)
            return self._watch()

    def _start(self, run: Callable[[], int], name: str) -> None:
        process = multiprocessing.get_context("fork").Process(target=_run_child, args=(run,), name=name)
        process.start()
        self._alive[process] = time.monotonic()

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _watch(self) -> int:
        failed = False
        while not self._stopping:
            wait([process.sentinel for process in self._alive], timeout=0.2)
            if self._learn is not None and 0 < self._learn_again_at <= time.monotonic():
                self._learn_again_at = 0.0
                self._start(self._learn, _LEARNER)
            for process in [p for p in self._alive if not p.is_alive()]:
                lived_s = time.monotonic() - self._alive.pop(process)
                log(
                    "error",
                    f"{process.name}_died",
                    pid=process.pid,
                    exit_status=process.exitcode,
                    lived_s=round(lived_s, 1),
                )
                if self._workers > 1:
                    _forget_gauges_of(process)
                if process.name == _LEARNER:
                    # Requests do not need it: what was learnt stays in use meanwhile.
                    self._learn_again_at = time.monotonic() + _LEARNER_PAUSE_S
                    continue
                if process.exitcode == 2:
                    # It could not even start (a port taken, a folder not writable): starting again would not help.
                    self._stopping = failed = True
                    break
                self._pause_s = (
                    0.0 if lived_s > _STEADY_S else min(_LONGEST_PAUSE_S, self._pause_s * 2 or _FIRST_PAUSE_S)
                )
                self._pause()
                if not self._stopping:
                    self._start(self._work, _WORKER)
        status = self._stop_all()
        return 2 if failed else status

    def _pause(self) -> None:
        end = time.monotonic() + self._pause_s
        while not self._stopping and time.monotonic() < end:
            time.sleep(0.1)

    def _stop_all(self) -> int:
        for process in self._alive:
            process.terminate()
        end = time.monotonic() + self._grace_s + 30
        status = 0
        for process in sorted(self._alive, key=lambda p: p.name == _LEARNER):
            if process.name == _LEARNER:
                # In the midst of training: it may die at any moment, and nobody has to wait for it.
                end = min(end, time.monotonic() + _LEARNER_GRACE_S)
            process.join(max(0.1, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
            if process.name == _LEARNER:
                continue
            # One that had not got as far as handling signals ends by the signal itself: that is an ordered stop too.
            if process.exitcode not in (0, -signal.SIGTERM):
                status = 1
        return status


def _forget_gauges_of(process: BaseProcess) -> None:
    """A dead worker has no requests open any more."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(process.pid)  # type: ignore[no-untyped-call]


def _run_child(run: Callable[[], int]) -> None:
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL)
    raise SystemExit(run())
