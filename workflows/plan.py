"""Plans how each step of a definition is carried out: what may run earlier, and in pieces.

Three passes, each of which may be left out, are rules on the definition alone; the values, the errors and the effects of a
run are the same with any of them, only the time differs:

    prune      a step waits for nothing that it does not use (Teola's pass 1)
    stages     a list longer than its component's effective batch is cut into pieces that flow on (pass 2)
    decoding   a chat hands each item of its list on while it writes the next (pass 4)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from typing import Any

from pydantic import TypeAdapter

from workflows.counts import guessed
from workflows.definition import PASSES, Definition, Pass, StepSpec

MOST_PIECES = 32
"""A longer list has larger pieces, not more."""
_BATCHED = ("embed", "ingest", "search", "rerank")
"""Kinds that work on the texts of a list together."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The facts about the engines that plans depend on."""

    effective_batch: Mapping[str, int] = field(default_factory=dict)
    """By component: how many items at once its throughput still gains from. Without an entry, a list is not cut for it."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The plan of one step of a definition. The default is the plan without any pass, but for `order` and `after`."""

    order: tuple[str, ...] = ()
    """Steps whose END its first primitive waits for, however they ended; sorted."""
    after: tuple[str, ...] = ()
    """Steps that must have ended well, or been skipped, before it starts; sorted. The same with any pass."""
    early_items: bool = False
    """It starts on items of its source, a splitting chat, before the chat's answer is whole: one piece per item."""
    stage: int | None = None
    """Its source's whole list is cut into pieces of this many items, if it has more; None: one piece. Where it `follows` a
    `map`, so many of its items make a piece; where it follows pieces of another kind, those are its own."""
    follows: bool = False
    """True if it takes each piece of its source (cut, early, or a `map`'s items) as it is there."""
    depth: int = 0
    """Primitives from its first to the farthest end: those with more go first."""
    depths: Mapping[str, int] = field(default_factory=dict)
    """By primitive (`embed`, `search`, `chat`, …); of a `fold`, of its last turn."""


NO_PLAN = StepPlan()


@dataclass(frozen=True, slots=True)
class Note:
    """One change that a pass made, or why it made none."""

    by: Pass
    step: str
    what: str
    """In words, for `explain` and the pages."""
    edge: tuple[str, str] | None = None
    """The step that is no longer waited for, and the one that does not wait."""
    nodes: tuple[str, ...] = ()
    """The primitives that start earlier or go in pieces, as `workflows.drawing` calls them."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A definition's plans, by step, and what the passes changed."""

    plans: Mapping[str, StepPlan]
    notes: tuple[Note, ...]


def planned(
    definition: Definition,
    profile: Profile,
    passes: AbstractSet[str] | None = None,
    counts: Mapping[str, int] | None = None,
) -> Planned:
    """Plan how a definition is carried out; linear in its steps, but for tools with effects in a chain.

    `passes` is the definition's own unless given. `counts` are lengths of lists that are known already, by name (an input, a
    step); a list that is known to be no longer than a batch is not cut.
    """
    applied = definition.passes if passes is None else passes
    order, after = _waits(definition)
    depths = _depths(definition, order, after, guessed(definition, counts))
    flow = _Flow(definition, profile, applied, counts or {})
    plans = {}
    for name in definition.order():
        early, follows, stage = flow.of(definition.steps[name])
        plans[name] = StepPlan(
            order=() if "prune" in applied else order[name],
            after=after[name],
            early_items=early,
            stage=stage,
            follows=follows,
            depth=depths[name].pop(""),
            depths=depths[name],
        )
    pruned = _pruned(definition, order) if "prune" in applied else ()
    notes = sorted((*pruned, *flow.notes), key=lambda note: PASSES.index(note.by))
    return Planned({name: plans[name] for name in definition.steps}, tuple(notes))


def piece_items(stage: int, count: int) -> int:
    """Items per piece of a list of `count`: `stage`, or more where that would be too many pieces."""
    return max(stage, -(-count // MOST_PIECES))


def primitives(definition: Definition, spec: StepSpec) -> tuple[str, ...]:
    """Name the primitives that carry a step out, in order, but for what joins its pieces."""
    source = definition.steps.get(spec.over[0]) if spec.over else None
    match spec.kind:
        case "ingest" if source is None or source.kind != "embed":
            return ("embed", "ingest")
        case "search" if not spec.index.startswith("component:"):
            return ("embed", "search")
        case "map" | "fold":
            return ("tool",) if spec.tool else ("chat",)
        case kind:
            return (kind,)


def head(definition: Definition, spec: StepSpec) -> str:
    """Return the name of a step's first primitive, without the number of a piece."""
    return f"{spec.name}.{primitives(definition, spec)[0]}" if spec.kind in _BATCHED else spec.name


# ---- what waits for what


def _waits(definition: Definition) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """(the steps whose end each would wait for in a chain of modules, those that must have ended well), by step.

    In a chain a tool that changes something comes after all earlier steps, and before all later ones.
    """
    order, after = {}, {}
    earlier: list[str] = []
    for name, spec in definition.steps.items():
        barrier: list[str] = []
        if definition.chained:
            barrier = [each for each in earlier if spec.acts or definition.steps[each].acts]
        after[name] = tuple(sorted({*spec.after, *barrier}))
        # A `search` reads its index after it has embedded its queries.
        at_head = spec.over if primitives(definition, spec)[0] == "embed" else spec.needs
        used = {*at_head, *after[name], *(spec.condition or ())[:1]}
        referred = {*definition.before(name), *(earlier[-1:] if definition.chained else ())}
        order[name] = tuple(sorted(referred - used))
        earlier.append(name)
    return order, after


def _pruned(definition: Definition, order: Mapping[str, tuple[str, ...]]) -> Iterator[Note]:
    for name, spec in definition.steps.items():
        for each in order[name]:
            what = f"{head(definition, spec)} no longer waits for {each}: it reads nothing of it"
            yield Note("prune", name, what, (each, name), (head(definition, spec),))


def _depths(
    definition: Definition,
    order: Mapping[str, tuple[str, ...]],
    after: Mapping[str, tuple[str, ...]],
    lengths: Mapping[str, int],
) -> dict[str, dict[str, int]]:
    """Primitives from each one of a step to the farthest end, by its name, and "" for the step's first: event 1 of Teola's
    Algorithm 2."""
    found: dict[str, dict[str, int]] = {}
    left = dict.fromkeys(definition.steps, 0)
    for name in reversed(definition.order()):
        spec, below = definition.steps[name], left[name]
        of: dict[str, int] = {}
        for primitive in reversed(primitives(definition, spec)):
            of[primitive] = below
            below += 1
        turns = max(lengths.get(spec.over[0], 1), 1) if spec.kind == "fold" else 1
        first = below - 1 + turns - 1
        for each in (*definition.before(name), *order[name], *after[name]):
            at = of[spec.kind] if spec.kind == "search" and each in spec.reads else first
            left[each] = max(left[each], at + 1)
        found[name] = {**of, "": first}
    return found


# ---- lists in pieces


class _Flow:
    """`of` for each step in order: which lists are cut, and who takes whose pieces as they are there."""

    def __init__(
        self, definition: Definition, profile: Profile, passes: AbstractSet[str], counts: Mapping[str, int]
    ) -> None:
        self._definition = definition
        self._profile = profile
        self._passes = passes
        self._counts = counts
        self._early: set[str] = set()
        """Steps that work on items of a list that is still written."""
        self._in_pieces: set[str] = set()
        self.notes: list[Note] = []

    def of(self, spec: StepSpec) -> tuple[bool, bool, int | None]:
        """(whether it starts on items of a chat, whether it follows pieces, of how many items its own are)."""
        source = self._definition.steps.get(spec.over[0]) if spec.over else None
        stage = self._batch(spec) if "stages" in self._passes else None
        if source is not None and source.splits is not None and "decoding" in self._passes:
            self._say_why_not(spec, source)
        if source is not None and _takes_pieces(spec):
            if "decoding" in self._passes and hands_on_items(self._definition, source):
                self._early.add(spec.name)
                what = f"{source.name} hands each item on to {self._head(spec)} while it is being written"
                self._note("decoding", source, what, source.name, self._head(spec))
                return True, False, None
            if _hands_on_pieces(source, spec) and source.name in self._early:
                self._early.add(spec.name)
                self._takes("decoding", spec, source)
                return False, True, None
            if self._follows(spec, source, stage):
                self._in_pieces.add(spec.name)
                self._takes("stages", spec, source)
                return False, True, stage
        if stage is None or primitives(self._definition, spec) == ("ingest",):
            return False, False, None
        self._in_pieces.add(spec.name)
        what = f"{self._head(spec)} goes in pieces of {stage}, the effective batch of {spec.component}"
        self._note("stages", spec, what, self._head(spec))
        return False, False, stage

    def _say_why_not(self, spec: StepSpec, source: StepSpec) -> None:
        """Note why what goes over a list waits for the whole of it, although the chat could hand items on."""
        waits = f"{self._head(spec)} waits for all of {source.name}"
        if spec.acts:
            self._note("decoding", spec, f"{waits}: it changes something")
        elif spec.kind == "fold":
            self._note("decoding", spec, f"{waits}: each turn reads the one before")
        elif source.on_error is not None and _takes_pieces(spec):
            self._note("decoding", spec, f"{waits}: with on_error that may be asked for again")

    def _follows(self, spec: StepSpec, source: StepSpec, stage: int | None) -> bool:
        """Tell if it takes pieces as they are there; of a `map` in batches of its own, which have to be known."""
        if "stages" not in self._passes or not _hands_on_pieces(source, spec):
            return False
        if source.kind == "map":
            return spec.kind == "map" or stage is not None
        return source.name in self._in_pieces

    def _batch(self, spec: StepSpec) -> int | None:
        """Into pieces of how many items its list is cut; None if it is not."""
        if spec.kind not in _BATCHED:
            return None
        batch = self._profile.effective_batch.get(spec.component)
        count = self._counts.get(spec.over[0])
        return None if batch is None or (count is not None and count <= batch) else batch

    def _head(self, spec: StepSpec) -> str:
        return head(self._definition, spec)

    def _takes(self, by: Pass, spec: StepSpec, source: StepSpec) -> None:
        what = f"{self._head(spec)} takes each piece of {source.name} as it is there"
        self._note(by, spec, what, self._head(spec))

    def _note(self, by: Pass, spec: StepSpec, what: str, *nodes: str) -> None:
        self.notes.append(Note(by, spec.name, what, nodes=nodes))


def hands_on_items(definition: Definition, source: StepSpec) -> bool:
    """Tell if a step writes a list of which others may take items before it is whole. It is not asked for again; one with
    `on_error` may be, so nobody takes its items early.
    """
    takers = (each for each in definition.steps.values() if source.name in each.over)
    return source.splits is not None and source.on_error is None and any(map(_takes_pieces, takers))


def _takes_pieces(spec: StepSpec) -> bool:
    """Tell if a step may work on a list in pieces: one that changes something waits for all of it."""
    return spec.kind in (*_BATCHED, "map") and not spec.acts


def _hands_on_pieces(source: StepSpec, taker: StepSpec) -> bool:
    """Tell if pieces of a step are values of their own.

    Hits are one list without duplicates only when all are there: of pieces of them only scores are made, and the best are
    taken at the end.
    """
    pair = (source.kind, taker.kind)
    return source.kind == "map" or pair in (("search", "rerank"), ("embed", "ingest"))


# ---- as JSON


def dumped(plans: Mapping[str, StepPlan]) -> dict[str, Any]:
    """Plans as JSON values: a run that another process takes up keeps the plans it began with, and so the same pieces."""
    return {name: _without_defaults(plan) for name, plan in plans.items()}


def loaded(plans: Mapping[str, Any]) -> dict[str, StepPlan]:
    """The plans that `dumped` was made of."""
    return _KEPT.validate_python(plans)


_KEPT = TypeAdapter(dict[str, StepPlan])


def _without_defaults(plan: StepPlan) -> dict[str, Any]:
    kept = {each.name: getattr(plan, each.name) for each in fields(StepPlan)}
    return {name: value for name, value in kept.items() if value != getattr(NO_PLAN, name)}
