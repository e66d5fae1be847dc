"""Workers on one port and helpers beside them: started, watched, changed, stopped together. Knows nothing of requests.

Each worker has its own event loop, connections and indexes; the database is what they share (docs/how-to/operate.md). Each
has a listening socket that stays while one worker takes over from another: no connection is refused meanwhile.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType

import structlog

from understudy.processes.control import REFUSED, REPLACED, Verdict, answer, asked
from understudy.processes.metrics_folder import metrics_folder

log = structlog.get_logger(__name__)


_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_HELPER_PAUSE_S = 5.0
_HELPERS_AFTER_S = 60.0
"""At the start helpers leave the processors to the workers until these serve and are not busy, and at most so long."""
_LOOK_S = 0.2
_LOOK_CALMLY_S = 5.0
_BUSY = 0.5
"""Share of all processors in use by the workers above which they are busy."""
_LONGEST_HELPER_PAUSE_S = 60.0
_HELPER_GRACE_S = 5.0
_WORKER = "worker"
_STEADY_S = 60.0
"""A process that lived this long was healthy: what went before does not count against its successor."""
_STARTS_WITHIN_S = 600.0
_SHOWN_CHARACTERS = 300

Work = Callable[[socket.socket | None, Connection], int]
"""A worker, given its socket and its line to the supervisor. It sends ("ready",) once it serves, or ("cannot start", why);
after REPLACED it ends."""


class CannotChange(Exception):
    """A configuration cannot be used, or not by a running gateway. The text says why."""


@dataclass(frozen=True, slots=True)
class Crew:
    """What a configuration comes to in processes."""

    work: Work
    helpers: Mapping[str, Callable[[], int]] = field(default_factory=dict)
    """By name: it begins the event that tells of a death, such as `learner_died`."""
    one_at_a_time: bool = False
    """Two workers in one place do not fit the machine: the old one ends before the new one starts."""


@dataclass(slots=True)
class _Helper:
    run: Callable[[], int]
    pause_s: float = 0.0
    """How long its successor waited, or will wait, before it starts."""
    again_at: float = 0.0
    """When it is started, again if it died (time.monotonic); 0 while it runs."""
    after_workers: bool = False
    """It was never started: it is as soon as all workers serve and are not busy, even before that."""


@dataclass(slots=True, eq=False)
class _Child:
    process: BaseProcess
    started_at: float
    slot: int | None = None
    """Of a worker: which one of them it is."""
    line: Connection | None = None
    ready: bool = False
    kill_at: float | None = None
    """It was told to stop, and is killed then (time.monotonic)."""
    cannot_start: str = ""

    def hear(self) -> None:
        """Take what it has sent."""
        try:
            while self.line is not None and self.line.poll():
                match self.line.recv():
                    case ("ready",):
                        self.ready = True
                    case ("cannot start", why):
                        self.cannot_start = why
        except (EOFError, OSError):
            self.line = None


class _Calm:
    """Whether workers leave the processors to others."""

    def __init__(self) -> None:
        self._cores = (
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        )
        self._used_s, self._at_s, self._was = 0.0, 0.0, False

    def look(self, workers: Iterable[_Child]) -> bool:
        """Whether they did lately, since this was asked before; also where the system does not tell."""
        now_s = time.monotonic()
        if (passed_s := now_s - self._at_s) >= _LOOK_S / 2:
            used_s = sum(_cpu_s(child.process) for child in workers)
            self._was = used_s - self._used_s < _BUSY * self._cores * passed_s
            self._used_s, self._at_s = used_s, now_s
        return self._was


def _cpu_s(process: BaseProcess) -> float:
    """CPU time of another process, in seconds; 0 where the system does not tell, or it has ended."""
    if sys.platform != "linux" or process.pid is None:
        return 0.0
    try:
        # A process's POSIX CPU-time clock: clock_getcpuclockid(3).
        return time.clock_gettime((~process.pid << 3) | 2)
    except OSError:
        return 0.0


class Supervisor:
    """Runs a crew's work in `workers` processes, and each of its helpers in one of its own, until told to stop.

    Requests need no helper: nobody waits for one that died, and at the end each gets only seconds to finish.
    """

    def __init__(
        self,
        crew: Crew,
        workers: int,
        *,
        grace_s: float,
        add_up_metrics: bool = False,
        bind: Callable[[], socket.socket] | None = None,
        reread: Callable[[], Crew] | None = None,
        control: socket.socket | None = None,
    ) -> None:
        """`add_up_metrics`: a helper has series of its own, which a worker is to tell even if it is the only one.

        `bind` makes a worker's socket. `reread` gives the crew of the configuration as it is now, or raises CannotChange.
        `control`: where orders come from, beside signals; see understudy.processes.control.
        """
        self._adds_up = workers > 1 or add_up_metrics
        self._crew = crew
        self._workers = workers
        self._helpers = {name: _Helper(run) for name, run in crew.helpers.items()}
        self._grace_s = grace_s
        self._bind = bind
        self._reread = reread
        self._control = control
        self._stopping = False
        self._hung_up = False
        self._sockets: dict[int, socket.socket] = {}
        self._children: dict[BaseProcess, _Child] = {}
        self._calm = _Calm()
        self._pause_s = 0.0
        self._had_terminal = os.isatty(2)
        self._wakes, self._wake = multiprocessing.Pipe(duplex=False)
        """A signal's handler writes: what waits for children would wait on."""

    def run(self) -> int:
        """Supervise until SIGTERM or SIGINT. Returns the process's exit status."""
        with metrics_folder() as folder:
            if self._adds_up:
                # prometheus_client reads this when it is first imported, which the workers do after the fork.
                os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
            for signum in (signal.SIGTERM, signal.SIGINT):
                signal.signal(signum, self._stop)
            signal.signal(signal.SIGHUP, self._hang_up)
            for slot in range(self._workers):
                self._start_worker(slot)
            for helper in self._helpers.values():
                helper.again_at = time.monotonic() + _HELPERS_AFTER_S
                helper.after_workers = True
            return self._watch()

    # ---- starting

    def _start_worker(self, slot: int) -> _Child:
        ours, theirs = multiprocessing.Pipe()
        if self._bind is not None and slot not in self._sockets:
            self._sockets[slot] = self._bind()
        sock, work = self._sockets.get(slot), self._crew.work
        child = self._start(lambda: work(sock, theirs), _WORKER, keeps=sock, closes=(ours,))
        theirs.close()
        child.slot, child.line = slot, ours
        return child

    def _start_helper(self, name: str, helper: _Helper) -> None:
        self._start(helper.run, name)

    def _start(
        self,
        run: Callable[[], int],
        name: str,
        *,
        keeps: socket.socket | None = None,
        closes: Iterable[Connection] = (),
    ) -> _Child:
        others = [each for each in self._sockets.values() if each is not keeps]
        lines = [child.line for child in self._children.values() if child.line is not None]
        unneeded = [*others, *lines, *closes, *([self._control] if self._control is not None else [])]
        process = multiprocessing.get_context("fork").Process(
            target=_run_child, args=(run, unneeded), name=name
        )
        # Else a child's collector would write to every page that it shares with its parent.
        gc.collect()
        gc.freeze()
        process.start()
        child = self._children[process] = _Child(process, time.monotonic())
        return child

    # ---- watching

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        """Stop in order; asked twice, at once."""
        if self._stopping:
            for process in self._children:
                process.kill()
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
        self._stopping = True
        self._wake.send_bytes(b"")

    def _hang_up(self, signum: int, frame: FrameType | None) -> None:
        # A terminal that was closed sends the same signal as somebody who wants a reload.
        if self._had_terminal and not os.isatty(2):
            self._stopping = True
        self._hung_up = True
        self._wake.send_bytes(b"")

    def _watch(self) -> int:
        while not self._stopping:
            # Everything else wakes it; a look costs the worker beside it a part of a millisecond.
            self._sleep(self._due_in_s(), orders=True)
            self._start_helpers()
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
            for child, _ in dead if not self._stopping else ():
                self._start_worker(child.slot or 0)
            if not self._stopping:
                self._take_orders()
        return self._stop_all()

    def _sleep(self, timeout_s: float, *, orders: bool = False) -> None:
        """Until a child ends, a worker says something, a signal comes, or the time is over. `orders`: or an order comes."""
        lines = [child.line for child in self._children.values() if child.line is not None]
        control = [self._control] if orders and self._control is not None else []
        sentinels = (process.sentinel for process in self._children)
        if self._wakes in wait([*sentinels, *lines, *control, self._wakes], timeout=timeout_s):
            self._wakes.recv_bytes()
        for child in self._children.values():
            child.hear()

    def _due_in_s(self) -> float:
        """How long nothing is to be done by itself, at most."""
        if self._hung_up:
            return 0.0
        stopping = any(child.kill_at is not None for child in self._children.values())
        waiting = any(helper.again_at for helper in self._helpers.values())
        return _LOOK_S if stopping or waiting else _LOOK_CALMLY_S

    def _start_helpers(self) -> None:
        """Those whose time has come."""
        if not any(helper.again_at for helper in self._helpers.values()):
            return
        workers = [child for child in self._children.values() if child.slot is not None]
        calm = self._calm.look(workers) and all(child.ready for child in workers)
        for name, helper in self._helpers.items():
            if 0 < helper.again_at <= time.monotonic() or (helper.after_workers and calm):
                helper.again_at, helper.after_workers = 0.0, False
                self._start_helper(name, helper)

    def _dead_workers(self) -> list[tuple[_Child, float]]:
        """The workers that died since this was last asked, and how long each lived, in seconds.

        Helpers that died are noted, to be started again later. Who was told to stop is killed where it takes too long.
        """
        workers: list[tuple[_Child, float]] = []
        for child in list(self._children.values()):
            process = child.process
            if process.is_alive():
                if child.kill_at is not None and time.monotonic() > child.kill_at:
                    process.kill()
                continue
            del self._children[process]
            if child.line is not None:
                child.line.close()
            if self._adds_up:
                _forget_gauges_of(process)
            if child.kill_at is not None:
                continue
            lived_s = time.monotonic() - child.started_at
            log.error(
                f"{process.name}_died",
                pid=process.pid,
                exit_status=process.exitcode,
                lived_s=round(lived_s, 1),
            )
            if child.slot is not None:
                # Connections that wait for the dead one would wait until its successor listens.
                if (sock := self._sockets.pop(child.slot, None)) is not None:
                    sock.close()
                workers.append((child, lived_s))
            elif (helper := self._helpers.get(process.name)) is not None:
                before_s = 0.0 if lived_s > _STEADY_S else helper.pause_s
                helper.pause_s = min(_LONGEST_HELPER_PAUSE_S, before_s * 2 or _HELPER_PAUSE_S)
                helper.again_at = time.monotonic() + helper.pause_s
            else:
                workers.append((child, lived_s))
        return workers

    def _pause(self) -> None:
        end = time.monotonic() + self._pause_s
        while not self._stopping and time.monotonic() < end:
            time.sleep(0.1)

    # ---- orders

    def _take_orders(self) -> None:
        """Carry out what was ordered since the last look: once, however many ordered it."""
        clients: list[socket.socket] = []
        wanted, self._hung_up = self._hung_up, False
        while self._control is not None:
            try:
                connection, _ = self._control.accept()
            except OSError:
                break
            if asked(connection):
                clients.append(connection)
            else:
                connection.close()
        if not wanted and not clients:
            return
        verdict = self._reload()
        for connection in clients:
            answer(connection, verdict)

    def _reload(self) -> Verdict:
        """Replace each worker by one of the configuration as it is now, and the helpers.

        A configuration that cannot be read, or that no worker starts with, changes nothing.
        """
        before = self._crew
        try:
            if self._reread is None:
                raise CannotChange(
                    "it was started without a configuration file: there is nothing to read anew"
                )
            self._crew = self._reread()
        except CannotChange as error:
            return self._refused(str(error))
        olds = [
            child for child in self._children.values() if child.slot is not None and child.kill_at is None
        ]
        for replaced, old in enumerate(olds):
            why = self._succeed(old)
            if why:
                if not replaced:
                    self._crew = before
                if not old.process.is_alive():
                    self._start_worker(old.slot or 0)
                return self._refused(f"{why}; {replaced} of {len(olds)} workers were replaced")
        self._change_helpers(self._crew)
        log.info("config_reloaded", workers=len(olds))
        return Verdict(True, f"reloaded: {len(olds)} workers were replaced")

    def _refused(self, why: str) -> Verdict:
        log.error("reload_refused", reason=why)
        for child in self._children.values():
            if child.line is not None and child.slot is not None:
                with suppress(OSError):
                    child.line.send((REFUSED, why[:_SHOWN_CHARACTERS]))
        return Verdict(False, why)

    def _succeed(self, old: _Child) -> str:
        """Put a new worker in the place of one, which then finishes what it has open. Gives why none could be."""
        if self._crew.one_at_a_time:
            self._replaced(old)
            while old.process.is_alive() and not self._stopping:
                self._wait_beside(old)
        new = self._start_worker(old.slot or 0)
        end = time.monotonic() + _STARTS_WITHIN_S
        while not new.ready and new.process.is_alive() and not self._stopping and time.monotonic() < end:
            self._wait_beside(old, new)
        new.hear()
        if not new.ready or not new.process.is_alive():
            self._dismiss(new)
            told = new.cannot_start or "the log says why"
            return f"the new worker {new.process.pid} did not begin to serve: {told}"
        if not self._crew.one_at_a_time:
            self._replaced(old)
        return ""

    def _wait_beside(self, *these: _Child) -> None:
        """Sleep a while, and replace the workers that die meanwhile, but these: one of them stays in their place anyway."""
        self._sleep(_LOOK_S)
        for child, _ in self._dead_workers():
            if child not in these:
                self._start_worker(child.slot or 0)

    def _replaced(self, child: _Child) -> None:
        """As `_dismiss`, of one whose successor serves: it has time for clients that use their connections again."""
        try:
            if child.line is None:
                raise BrokenPipeError
            child.line.send(REPLACED)
        except OSError:
            self._dismiss(child)
        else:
            child.kill_at = time.monotonic() + self._grace_s + 30

    def _dismiss(self, child: _Child) -> None:
        """Have it finish what it has open, and end."""
        child.kill_at = time.monotonic() + self._grace_s + 30
        child.process.terminate()

    def _change_helpers(self, crew: Crew) -> None:
        for child in self._children.values():
            if child.process.name in self._helpers and child.slot is None and child.kill_at is None:
                child.kill_at = time.monotonic() + _HELPER_GRACE_S
                child.process.terminate()
        self._helpers = {name: _Helper(run) for name, run in crew.helpers.items()}
        for name, helper in self._helpers.items():
            self._start_helper(name, helper)

    # ---- stopping

    def _stop_all(self) -> int:
        for sock in self._sockets.values():
            sock.close()
        for child in self._children.values():
            child.process.terminate()
        end = time.monotonic() + self._grace_s + 30
        status = 0
        for child in sorted(self._children.values(), key=lambda c: c.slot is None):
            process = child.process
            if child.slot is None:
                # In the midst of training, say: it may die at any moment, and nobody has to wait for it.
                end = min(end, time.monotonic() + _HELPER_GRACE_S)
            process.join(max(0.1, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
            if child.slot is None:
                continue
            # One that had not got as far as handling signals ends by the signal itself: that is an ordered stop too.
            if process.exitcode not in (0, -signal.SIGTERM):
                status = 1
        return status


def _cannot_start(dead: list[tuple[_Child, float]]) -> bool:
    """Whether one could not even start (a folder not writable, say): starting it again would not help."""
    return any(child.process.exitcode == 2 for child, _ in dead)


def _forget_gauges_of(process: BaseProcess) -> None:
    """A dead worker has no requests open any more."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(process.pid)  # type: ignore[no-untyped-call]


def _run_child(run: Callable[[], int], unneeded: Iterable[socket.socket | Connection]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # A terminal sends these to every process of the group: the supervisor is told, and tells its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for each in unneeded:
        each.close()
    threading.Thread(target=_end_with_parent, name="end with parent", daemon=True).start()
    raise SystemExit(run())


def _end_with_parent() -> None:
    """A supervisor that was killed stops nobody: its children would hold the port, and the data folder, for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
