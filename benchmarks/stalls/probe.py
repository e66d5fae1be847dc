"""How long a server's event loop does not answer, seen from outside."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from dataclasses import dataclass

_PAUSE_S = 0.001


@dataclass
class Worst:
    """The slowest of the probes so far."""

    probes: int = 0
    wall_s: float = 0.0
    """Until the answer was here."""
    held_s: float = 0.0
    """Of that, at most what the server was on a core itself: without what other processes took from it."""


def _cpu_s(pid: int) -> float:
    # A process's POSIX CPU-time clock counts nanoseconds (clock_getcpuclockid(3)).
    return time.clock_gettime((~pid << 3) | 2)


class Probe:
    """Asks `GET /healthz` over and over on a connection of its own, in a thread, until it is closed. A context manager."""

    def __init__(self, port: int, pid: int) -> None:
        self._pid = pid
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._worst = Worst()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)

        self._thread.start()

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop probing."""
        self._stop.set()
        self._thread.join()
        self._connection.close()

    def taken(self) -> Worst:
        """The worst since the last call, once a probe that begins now is answered."""
        with self._lock:
            asked = self._worst.probes
        while self._thread.is_alive():
            with self._lock:
                if self._worst.probes >= asked + 2:
                    worst, self._worst = self._worst, Worst()
                    return worst
            time.sleep(_PAUSE_S)
        raise RuntimeError("the probe has ended: the server does not answer any more")

    def _run(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            while not self._stop.wait(_PAUSE_S):
                cpu, began = _cpu_s(self._pid), time.perf_counter()
                self._connection.request("GET", "/healthz")
                self._connection.getresponse().read()
                wall_s, used_s = time.perf_counter() - began, _cpu_s(self._pid) - cpu
                with self._lock:
                    worst = self._worst
                    worst.probes += 1
                    worst.wall_s = max(worst.wall_s, wall_s)
                    worst.held_s = max(worst.held_s, min(wall_s, used_s))
