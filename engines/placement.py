"""What an engine's line may know of the application that a request belongs to: its class, its run, and what is left of it.

A request without one is a run of one step that waits for its answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import takewhile
from typing import Any


class Rank(IntEnum):
    """The class of a request, the strictest first (Parrot, OSDI 2024, section 5.2)."""

    LATENCY = 0
    """Somebody waits for this one answer."""
    GROUP = 1
    """One of several that feed the same consumer: only the last of them to end matters."""
    THROUGHPUT = 2
    """Nobody waits, or only for all of many."""

    @property
    def label(self) -> str:
        """Its name, as metrics and pages write it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one request stands in its run. All token counts are estimates."""

    rank: Rank = Rank.LATENCY
    run: str = ""
    """The run's id; empty for a plain call, which is a run of its own."""
    group: str = ""
    """The task group, unique within its run; empty where it is in none."""
    depth: int = 0
    """Steps between this one and the run's start; within a run the least goes first."""
    work_left: float = 0.0
    """Tokens still to be computed in the run, this step included, along what is not done yet; 0: only its own."""
    expected_tokens: int = 0
    """Tokens that it holds in an engine at its end: its prompt and its answer; 0: estimated from its body."""
    boundaries: tuple[tuple[int, int], ...] = ()
    """Where a variable's value begins or ends: (index of the message, offset in characters of its text), ascending, as
    in the step's own messages."""
    step: str = ""
    """The step's id, unique within its run: for who changes what is known of it while it waits."""

    def among(self, sent: Sequence[Mapping[str, Any]], own: Sequence[Mapping[str, Any]]) -> Placement:
        """The same for messages that hold the step's own with others (examples) put between them in one place.

        Where `sent` is anything else, its boundaries are unknown, and dropped. Messages are the same by identity.
        """
        if not self.boundaries or sent is own:
            return self
        added = len(sent) - len(own)
        lead = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(sent, own, strict=False)))
        rest = len(own) - lead
        if added < 0 or any(a is not b for a, b in zip(sent[len(sent) - rest :], own[lead:], strict=True)):
            return replace(self, boundaries=())
        return replace(
            self,
            boundaries=tuple((index + added * (index >= lead), offset) for index, offset in self.boundaries),
        )


PLAIN = Placement()
"""Of a request that says nothing: it waits for its answer, and is all of its run."""
BACKGROUND = Placement(Rank.THROUGHPUT)
"""Of what the gateway asks by itself."""
