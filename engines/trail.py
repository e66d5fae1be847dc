"""What became of each request to an engine, for logs, rows and pages. Of its content only `said` holds anything."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    why: str = field(default="", compare=False)
    """What broke, in words of ours, which say nothing of what was asked; empty where it answered with an error."""
    said: bytes = field(default=b"", compare=False, repr=False)
    """The beginning of the error that it answered with. May quote what was asked: not for logs and rows."""

    def __str__(self) -> str:
        """Such as `large; timeout_first_data`."""
        name = f"{self.engine}@{self.replica}" if self.replica else self.engine
        return f"{name}; {self.kind}" if self.kind else name
