"""Workers on one port and helpers beside them: started, watched, restarted, stopped together. Knows nothing of requests.

Each worker has its own event loop, connections and indexes; the database is what they share (docs/how-to/operate.md).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType

import structlog

from understudy.processes.metrics_folder import metrics_folder

log = structlog.get_logger(__name__)


_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_HELPER_PAUSE_S = 5.0
_LONGEST_HELPER_PAUSE_S = 60.0
_HELPER_GRACE_S = 5.0
_WORKER = "worker"
_STEADY_S = 60.0
"""A process that lived this long was healthy: what went before does not count against its successor."""


@dataclass(slots=True)
class _Helper:
    run: Callable[[], int]
    pause_s: float = 0.0
    """How long its successor waited, or will wait, before it starts."""
    again_at: float = 0.0
    """When, having died, it is started again (time.monotonic); 0 while it runs."""


class Supervisor:
    """Runs `work` in `workers` processes, and each of `helpers` in one of its own, until told to stop.

    Requests need no helper: nobody waits for one that died, and at the end each gets only seconds to finish.
    """

    def __init__(
        self,
        work: Callable[[], int],
        workers: int,
        *,
        grace_s: float,
        helpers: Mapping[str, Callable[[], int]] | None = None,
        add_up_metrics: bool = False,
    ) -> None:
        """`helpers`: name (it begins the event that tells of a death, such as `learner_died`) to what it runs.

        `add_up_metrics`: a helper has series of its own, which a worker is to tell even if it is the only one.
        """
        self._adds_up = workers > 1 or add_up_metrics
        self._work = work
        self._workers = workers
        self._helpers = {name: _Helper(run) for name, run in (helpers or {}).items()}
        self._grace_s = grace_s
        self._stopping = False
        self._alive: dict[BaseProcess, float] = {}
        self._pause_s = 0.0

    def run(self) -> int:
        """Supervise until SIGTERM or SIGINT. Returns the process's exit status."""
        with metrics_folder() as folder:
            if self._adds_up:
                # prometheus_client reads this when it is first imported, which the workers do after the fork.
                os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
            for signum in (signal.SIGTERM, signal.SIGINT):
                signal.signal(signum, self._stop)
            for _ in range(self._workers):
                self._start(self._work, _WORKER)
            for name, helper in self._helpers.items():
                self._start(helper.run, name)
            return self._watch()

    def _start(self, run: Callable[[], int], name: str) -> None:
        process = multiprocessing.get_context("fork").Process(target=_run_child, args=(run,), name=name)
        process.start()
        self._alive[process] = time.monotonic()

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _watch(self) -> int:
        while not self._stopping:
            wait([process.sentinel for process in self._alive], timeout=0.2)
            self._start_helpers_again()
            dead = self._dead_workers()
            if dead and not _cannot_start(dead):
                steady = all(lived_s > _STEADY_S for _, lived_s in dead)
                self._pause_s = 0.0 if steady else min(_LONGEST_PAUSE_S, self._pause_s * 2 or _FIRST_PAUSE_S)
                self._pause()
                # Who died meanwhile died of the same, most likely: one pause is for all of them.
                dead += self._dead_workers()
            if _cannot_start(dead):
                self._stop_all()
                return 2
            for _ in dead if not self._stopping else ():
                self._start(self._work, _WORKER)
        return self._stop_all()

    def _start_helpers_again(self) -> None:
        for name, helper in self._helpers.items():
            if 0 < helper.again_at <= time.monotonic():
                helper.again_at = 0.0
                self._start(helper.run, name)

    def _dead_workers(self) -> list[tuple[BaseProcess, float]]:
        """The workers that died since this was last asked, and how long each lived, in seconds.

        Helpers that died are noted, to be started again later.
        """
        workers: list[tuple[BaseProcess, float]] = []
        for process in [p for p in self._alive if not p.is_alive()]:
            lived_s = time.monotonic() - self._alive.pop(process)
            log.error(
                f"{process.name}_died",
                pid=process.pid,
                exit_status=process.exitcode,
                lived_s=round(lived_s, 1),
            )
            if self._adds_up:
                _forget_gauges_of(process)
            if (helper := self._helpers.get(process.name)) is not None:
                before_s = 0.0 if lived_s > _STEADY_S else helper.pause_s
                helper.pause_s = min(_LONGEST_HELPER_PAUSE_S, before_s * 2 or _HELPER_PAUSE_S)
                helper.again_at = time.monotonic() + helper.pause_s
            else:
                workers.append((process, lived_s))
        return workers

    def _pause(self) -> None:
        end = time.monotonic() + self._pause_s
        while not self._stopping and time.monotonic() < end:
            time.sleep(0.1)

    def _stop_all(self) -> int:
        for process in self._alive:
            process.terminate()
        end = time.monotonic() + self._grace_s + 30
        status = 0
        for process in sorted(self._alive, key=lambda p: p.name in self._helpers):
            if process.name in self._helpers:
                # In the midst of training, say: it may die at any moment, and nobody has to wait for it.
                end = min(end, time.monotonic() + _HELPER_GRACE_S)
            process.join(max(0.1, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
            if process.name in self._helpers:
                continue
            # One that had not got as far as handling signals ends by the signal itself: that is an ordered stop too.
            if process.exitcode not in (0, -signal.SIGTERM):
                status = 1
        return status


def _cannot_start(dead: list[tuple[BaseProcess, float]]) -> bool:
    """Whether one could not even start (a folder not writable, say): starting it again would not help."""
    return any(process.exitcode == 2 for process, _ in dead)


def _forget_gauges_of(process: BaseProcess) -> None:
    """A dead worker has no requests open any more."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(process.pid)  # type: ignore[no-untyped-call]


def _run_child(run: Callable[[], int]) -> None:
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, name="end with parent", daemon=True).start()
    raise SystemExit(run())


def _end_with_parent() -> None:
    """A supervisor that was killed stops nobody: its children would hold the port, and the data folder, for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
