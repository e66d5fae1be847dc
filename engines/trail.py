"""What became of each request to an engine, for logs, rows and pages. Holds no text of a request, answer or error."""

from __future__ import annotations

from dataclasses import dataclass

from engines.errors import Kind


@dataclass(frozen=True, slots=True)
class Tried:
    """One engine that was asked, or was to be asked and was not."""

    engine: str
    replica: str
    """Which of its base URLs; empty where it has one."""
    kind: Kind | None
    """How it failed; None where it answered."""
    status: int
    """Of its answer; 0 where none came."""
    seconds: float
    """Until its answer began, or failed; 0 where it was not asked."""

    def __str__(self) -> str:
        """Such as `large; timeout_first_data`."""
        name = f"{self.engine}@{self.replica}" if self.replica else self.engine
        return f"{name}; {self.kind}" if self.kind else name
