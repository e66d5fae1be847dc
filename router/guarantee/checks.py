"""Notices checks that do not come back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Awaited:
    """Checks that were to be made since the last one that told something: without news nobody would notice a change."""

    most: float
    """Checks, and seconds since the first of them, after which they are overdue."""
    most_s: float
    wished: float = 0.0
    since_s: float = 0.0

    def wish(self, share: float, now_s: float) -> None:
        """Another request was to be checked with this probability. `now_s`: by a clock that runs forward."""
        if not self.wished:
            self.since_s = now_s
        self.wished += share

    def told(self) -> None:
        """An outcome came."""
        self.wished = 0.0

    def overdue(self, now_s: float) -> bool:
        """Tell if the way may answer nobody until there is an outcome again."""
        return self.wished > self.most and now_s - self.since_s > self.most_s
