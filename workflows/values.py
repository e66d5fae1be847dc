"""Values that are no text: vectors and indexes. They stay in the memory of the process that made them.

They are derived from texts: where a run is taken up by another process, the steps that made them run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workflows.transform import Value


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that is never stored, rendered or told."""

    held: Any
    """`Vectors`, or an index: whatever who carries the steps out makes of an `ingest`."""
    size_bytes: int = 0
    """Roughly, in memory."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """The content of an `embed` step's Opaque."""

    texts: Sequence[str]
    rows: Sequence[Any]
    """A vector for each text."""


Held = Value | Opaque
"""The content of a workflow's variable."""
