"""What a pass is given besides the graph, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workflows.definition import Definition
from workflows.plan import Note, Profile
from workflows.primitives import PrimitiveGraph


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known before a run begins."""

    definition: Definition
    profile: Profile
    counts: Mapping[str, int]
    """Lengths of lists, by name; of most nothing is known."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A graph after a pass, and what the pass did to it."""

    graph: PrimitiveGraph
    notes: tuple[Note, ...]
