"""Runs the client processes of a plan: starts them, lets them begin at the same time, and passes on their batches.

loadtest.totals adds the batches up.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from loadtest.errors import WorkerDied
from loadtest.plan import LoadPlan
from loadtest.records import Batch
from loadtest.worker import Frames, frame

_START_UP_LIMIT_S = 60.0
_LEAD_S = 0.1


class ClientProcesses:
    """The client processes of one run. Call `run` once; `stop` may be called at any time from the same loop."""

    def __init__(self, plan: LoadPlan, take: Callable[[Batch], None]) -> None:
        self._plan = plan
        self._take = take
        self._processes: list[subprocess.Popen[bytes]] = []
        self._sockets: list[socket.socket] = []
        self._stopped = False
        self.start_s = 0.0
        self.started = asyncio.Event()

    async def run(self) -> None:
        """Runs the plan to its end. Raises WorkerDied if a process ends without its results."""
        loop = asyncio.get_running_loop()
        try:
            for index in range(self._plan.processes):
                self._sockets.append(self._spawn(index))
            frames = [Frames() for _ in self._sockets]
            waiting = [[*(await self._read(k, frames[k], _START_UP_LIMIT_S))] for k in range(len(frames))]
            self._fail_on([batch for batches in waiting for batch in batches])
            self.start_s = time.monotonic() + _LEAD_S
            for sock in self._sockets:
                await loop.sock_sendall(sock, frame(("stop",) if self._stopped else ("go", self.start_s)))
            self.started.set()
            if not self._stopped:
                async with asyncio.TaskGroup() as group:
                    for k in range(len(frames)):
                        group.create_task(self._follow(k, frames[k]), name=f"client process {k}")
        except BaseExceptionGroup as group_error:
            raise group_error.exceptions[0] from None
        finally:
            self._end_all()

    def stop(self) -> None:
        """Tells every process to stop sending and to return its results."""
        self._stopped = True
        for sock in self._sockets:
            try:
                sock.send(frame(("stop",)))
            except OSError:
                continue  # it has ended

    def _spawn(self, index: int) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            roots = [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "loadtest.worker", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # a Ctrl-C on the terminal reaches only the parent
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, roots))},
                )
            )
        ours.sendall(frame(("plan", self._plan, index)))
        ours.setblocking(False)
        return ours

    async def _read(self, k: int, frames: Frames, limit_s: float | None) -> list[Batch]:
        """At least one message of process k; empty once it has closed its end."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(limit_s):
                    data = await loop.sock_recv(self._sockets[k], 1 << 18)
            except TimeoutError:
                raise WorkerDied(f"client process {k} was not ready within {limit_s:g} s") from None
            except OSError:
                data = b""
            if not data:
                return []
            if messages := frames.feed(data):
                return messages

    async def _follow(self, k: int, frames: Frames) -> None:
        while True:
            batches = await self._read(k, frames, None)
            self._fail_on(batches)
            for batch in batches:
                self._take(batch)
                if batch.final:
                    return
            if not batches:
                code = self._processes[k].poll()
                raise WorkerDied(f"client process {k} ended early (exit code {code}): its results are lost")

    def _fail_on(self, batches: list[Batch]) -> None:
        for batch in batches:
            if batch.failure:
                raise WorkerDied(f"client process {batch.worker} failed: {batch.failure}")

    def _end_all(self) -> None:
        for sock in self._sockets:
            sock.close()
        for process in self._processes:
            try:
                process.wait(5.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
