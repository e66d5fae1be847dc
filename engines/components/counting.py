"""What is told of a component at work, for whoever wants to count it."""

from __future__ import annotations

from engines.errors import Kind


class Uncounted:
    """Counts nothing. Of one ability of one component."""

    def queued(self, change: int) -> None:
        """So many more texts, queries or calls wait."""

    def begun(self) -> None:
        """A request was begun."""

    def ended(self) -> None:
        """A request ended, however."""

    def waited(self, seconds: float) -> None:
        """A part of a step waited so long for its request."""

    def answered(self, items: int, seconds: float) -> None:
        """A request with so many texts was answered."""

    def failed(self, kind: Kind) -> None:
        """A request, or a part of one, failed."""


UNCOUNTED = Uncounted()
