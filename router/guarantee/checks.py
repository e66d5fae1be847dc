"""Decides how often answers are checked while a way is open, and notices checks that do not come back."""

from __future__ import annotations

from dataclasses import dataclass

CHECK_FLOOR = 0.1
"""The least share of what an open way decides that is compared with the reference."""
_HALVED_BY = 30
"""Checks after which the first share is halved, as far as the floor allows."""


def check_share(first: float, checks: int) -> float:
    """The share to check after so many checks: `first`, which falls to CHECK_FLOOR."""
    return max(CHECK_FLOOR, first * _HALVED_BY / (_HALVED_BY + checks))


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

    def unwish(self, share: float) -> None:
        """One of them is not to be checked after all."""
        self.wished = max(0.0, self.wished - share)

    def told(self) -> None:
        """An outcome came."""
        self.wished = 0.0

    def overdue(self, now_s: float) -> bool:
        """Tell if the way may answer nobody until there is an outcome again."""
        return self.wished > self.most and now_s - self.since_s > self.most_s
