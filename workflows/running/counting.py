"""Tells whoever counts runs what became of them."""

from __future__ import annotations


class Uncounted:
    """Counts nothing: what is told of runs, for whoever wants to count it."""

    def live(self, change: int) -> None:
        """So many more runs are carried out by this process."""

    def step(self, rank: str, state: str) -> None:
        """Count one finished step by class and result."""

    def adopted(self) -> None:
        """A run of a process that ended is carried on here."""

    def not_saved(self) -> None:
        """The store did not take what happened to runs: it is tried again, and they go on."""


UNCOUNTED = Uncounted()
