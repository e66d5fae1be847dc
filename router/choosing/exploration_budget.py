"""Limits exploration per key to a share of its recent decisions."""

from __future__ import annotations

import math
import threading

from cachetools import LRUCache


class ExplorationBudget:
    """Two fading counts per key, in bounded memory. Thread-safe; each worker counts for itself.

    A key that spent its budget is routed greedily until it has earned some again. Its decisions are then logged with
    probability 1, which is true.
    """

    def __init__(self, share: float = 0.1, *, window_s: float = 3600.0, keys: int = 10_000) -> None:
        """`share` 0..1 of a key's decisions may explore; a decision `window_s` ago counts e times less. Only the `keys`
        used most recently are remembered. Raises ValueError.
        """
        if not 0.0 <= share <= 1.0 or not window_s > 0.0 or keys < 1:
            raise ValueError("share must be 0..1, window_s above 0 and keys at least 1")
        self._share = share
        self._window_s = window_s
        self._recent: LRUCache[str, _Recent] = LRUCache(keys)
        self._lock = threading.Lock()

    def allows(self, key: str, now_s: float) -> bool:
        """Tell if the decision that is due for `key` may explore, and count it. A key's first always may."""
        if self._share <= 0.0:
            return False
        with self._lock:
            recent = self._at(key, now_s)
            allowed = recent.explored <= self._share * recent.decisions
            recent.decisions += 1.0
            return allowed

    def spent(self, key: str, now_s: float) -> None:
        """Counts an explored decision of `key`."""
        with self._lock:
            self._at(key, now_s).explored += 1.0

    def _at(self, key: str, now_s: float) -> _Recent:
        """The counts of `key`, faded to now. The caller holds the lock."""
        recent = self._recent.get(key)
        if recent is None:
            recent = self._recent[key] = _Recent(now_s)
        elif now_s > recent.at_s:
            # A clock that was set back fades nothing.
            kept = math.exp((recent.at_s - now_s) / self._window_s)
            recent.decisions *= kept
            recent.explored *= kept
            recent.at_s = now_s
        return recent


class _Recent:
    __slots__ = ("at_s", "decisions", "explored")

    def __init__(self, at_s: float) -> None:
        self.at_s = at_s
        self.decisions = 0.0
        self.explored = 0.0
