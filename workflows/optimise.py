"""What may run earlier, and in pieces: from a definition to the plan of each of its steps.

`optimise` builds the p-graph, applies the passes until nothing changes, and reads the plans off the e-graph. The values, the
errors and the effects of a run are the same with any set of passes; only the time differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from workflows.definition import Definition
from workflows.plan import Note, Profile, StepPlan
from workflows.primitives import PrimitiveGraph


@dataclass(frozen=True, slots=True)
class EGraph:
    """A definition, before and after the passes."""

    pgraph: PrimitiveGraph
    graph: PrimitiveGraph
    notes: tuple[Note, ...]
    plans: Mapping[str, StepPlan]
    """By step, for each step of the definition."""


def optimise(
    definition: Definition,
    profile: Profile,
    passes: AbstractSet[str] | None = None,
    counts: Mapping[str, int] | None = None,
) -> EGraph:
    """The e-graph of a definition; cached by its version, what it needs of the profile, the passes and the counts.

    `passes` is the definition's own unless given. `counts` are lengths of lists that are known already, by name (an input, a
    step); a list that is known to be no longer than a batch is not cut.
    """
    raise NotImplementedError
