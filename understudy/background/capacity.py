"""How much of a core a worker uses, and how many requests a second it can answer until latency breaks, as an estimate.

Of a core of its own: `BREAKS_AT` of it, divided by the CPU time that a request took lately, without what the worker uses
when nobody asks it. Where embeddings run on further cores it can answer more.
"""

from __future__ import annotations

BREAKS_AT = 0.8
"""Share of a core above which requests wait for each other longer than they take (an M/D/1 queue: half a service time at
0.5, two at 0.8, five at 0.9)."""
_SHARE_S = 1.0
"""Time constant of the share."""
_REQUESTS = 500.0
"""So many requests, lately, are looked at."""


class Capacity:
    """Of one process; `look` it again and again, from one thread."""

    def __init__(self, now_s: float, cpu_s: float, requests: int) -> None:
        """`cpu_s`: of the whole process so far; `requests`: ended so far."""
        self.core_share = 0.0
        """Of one core, in use by all threads of the process: may exceed 1."""
        self.per_s = 0.0
        """Requests a second until latency breaks; 0: not known yet."""
        self._at = now_s, cpu_s, requests
        self._idle_share = 0.0
        self._took_s = self._ended = 0.0

    def look(self, now_s: float, cpu_s: float, requests: int, *, shed: bool = False) -> None:
        """Take the figures of now. `shed`: requests cost less than usual, and are no measure."""
        passed_s, used_s, ended = (
            now - then for now, then in zip((now_s, cpu_s, requests), self._at, strict=True)
        )
        self._at = now_s, cpu_s, requests
        if passed_s <= 0.0:
            return
        share, weight = used_s / passed_s, min(1.0, passed_s / _SHARE_S)
        self.core_share += weight * (share - self.core_share)
        if not ended:
            self._idle_share += weight * (share - self._idle_share)
        elif not shed or not self.per_s:
            self._took_s += max(0.0, used_s - self._idle_share * passed_s)
            self._ended += ended
            self.per_s = BREAKS_AT * self._ended / max(1e-6, self._took_s)
            if self._ended > _REQUESTS:
                self._took_s, self._ended = self._took_s / 2, self._ended / 2
