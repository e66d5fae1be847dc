"""What may run earlier, and in pieces: from a definition to the plan of each of its steps.

`optimise` builds the p-graph, applies the passes until nothing changes, and reads the plans off the e-graph. The values, the
errors and the effects of a run are the same with any set of passes; only the time differs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from threading import Lock

from cachetools import LRUCache

from workflows.counts import guessed
from workflows.definition import PASSES, Definition, Pass
from workflows.passes.decoding import decoding
from workflows.passes.prune import prune
from workflows.passes.seen import Changed, Seen
from workflows.passes.stages import stages
from workflows.plan import Note, Profile, StepPlan
from workflows.primitives import Node, Primitive, PrimitiveGraph, build

_BY_NAME: Mapping[Pass, Callable[[PrimitiveGraph, Seen], Changed | None]] = {
    "prune": prune,
    "stages": stages,
    "decoding": decoding,
}
_KEPT = 256
_kept: LRUCache[Hashable, EGraph] = LRUCache(_KEPT)
_lock = Lock()


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
    applied = definition.passes if passes is None else passes
    seen = Seen(definition, profile, counts or {})
    key = _key(seen, applied)
    with _lock:
        found = _kept.get(key)
    if found is None:
        found = optimised(seen, applied)
        with _lock:
            _kept[key] = found
    return found


def optimised(seen: Seen, passes: AbstractSet[str]) -> EGraph:
    """`optimise` without its cache."""
    pgraph = graph = build(seen.definition)
    notes: list[Note] = []
    changing = True
    while changing:
        changing = False
        for name in PASSES:
            changed = _BY_NAME[name](graph, seen) if name in passes else None
            if changed is not None:
                graph, changing = changed.graph, True
                notes += changed.notes
    return EGraph(pgraph, graph, tuple(note for note in notes if _holds(note, graph)), plans_of(graph, seen))


def _holds(note: Note, graph: PrimitiveGraph) -> bool:
    """Whether a note is still true: a list that is cut may come item by item after all."""
    cut = note.by == "stages" and note.edge is None
    return not cut or graph.nodes[note.nodes[0]].stage is not None


def _key(seen: Seen, passes: AbstractSet[str]) -> Hashable:
    profile = seen.profile
    steps = seen.definition.steps.values()
    engines = tuple(
        (step.component, profile.effective_batch.get(step.component)) for step in steps if step.component
    )
    counts = tuple(sorted(seen.counts.items()))
    return seen.definition.version, engines, counts, frozenset(passes)


# ---- plans


def plans_of(graph: PrimitiveGraph, seen: Seen) -> Mapping[str, StepPlan]:
    """How each step is carried out, as its nodes and edges say."""
    depths = _depths(graph, guessed(seen.definition, seen.counts))
    by_step: dict[str, list[Node]] = {}
    for node in graph.nodes.values():
        by_step.setdefault(node.step, []).append(node)
    return {name: _plan(graph, name, by_step[name], depths) for name in seen.definition.steps}


def _plan(
    graph: PrimitiveGraph, step: str, nodes: list[Node], depths: Mapping[str, tuple[int, int]]
) -> StepPlan:
    head = graph.nodes[graph.heads[step]]
    waits = [(edge.kind, graph.nodes[edge.before]) for edge in graph.into[head.id]]
    pieces = [before for kind, before in waits if kind == "items" and before.step != step]
    early = any(before.primitive == "partial_decode" for before in pieces)
    return StepPlan(
        order=tuple(sorted({before.step for kind, before in waits if kind == "order"})),
        after=tuple(sorted({before.step for kind, before in waits if kind in ("after", "effect")})),
        early_items=early,
        stage=next((node.stage for node in nodes if node.stage is not None), None),
        follows=bool(pieces) and not early,
        depth=depths[head.id][0],
        depths={_PLAIN.get(node.primitive, node.primitive): depths[node.id][1] for node in nodes},
    )


_PLAIN: Mapping[Primitive, Primitive] = {"partial_decode": "decode"}


def _depths(graph: PrimitiveGraph, counts: Mapping[str, int]) -> Mapping[str, tuple[int, int]]:
    """(of its first turn, of its last turn) of each node: Algorithm 2's event 1; one for nodes that take no turns."""
    depths: dict[str, tuple[int, int]] = {}
    for id_ in reversed(graph.order()):
        node = graph.nodes[id_]
        last = max((depths[edge.after][0] + 1 for edge in graph.out_of[id_]), default=0)
        depths[id_] = (last, last)
        if node.per == "turn":
            turns = max(counts.get(node.list, 1), 1) - 1
            if node.primitive == "prefill":
                # Its decoding stands for all turns; this is the last turn's prefilling.
                last = 1 + next(
                    depths[edge.after][1]
                    for edge in graph.out_of[id_]
                    if graph.nodes[edge.after].step == node.step
                )
                depths[id_] = (last + 2 * turns, last)
            elif node.primitive == "decode":
                depths[id_] = (last + 2 * turns, last)
            else:
                depths[id_] = (last + turns, last)
    return depths
