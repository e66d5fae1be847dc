"""A definition becomes steps, piece by piece, as the lists that its steps work on become known.

Pure and deterministic: steps and their ids follow from the definition, the plans, the inputs and the lists alone. So another
process that takes a run up makes the same graph of the values that are stored (`replay`).

    began   steps that are known at once, and a *gather* for each step that works on a list; it waits for its pieces
    item    an item of a list that is still written: pieces of steps that start on items
    ready   a list is whole: its (further) pieces; the gather learns what it reads

| step              | ids                                                            |
|-------------------|----------------------------------------------------------------|
| one primitive     | `queries`                                                      |
| embed             | `v.embed[0]` …, `v`                                            |
| ingest            | `index.embed[0]` …, `index.ingest[0]` …, `index`               |
| search            | `found.embed[0]` …, `found.search[0]` …, `found`               |
| rerank            | `top.rerank[0]` …, `top`                                       |
| map, fold         | `answer[0]` …, `answer`                                        |

What `what` holds, by primitive; what the step works on (functions of `workflows.compute`, or the progress's); its answer:

| primitive  | `what`                                       | works on                       | answer                   |
|------------|----------------------------------------------|--------------------------------|--------------------------|
| chat       | `splits`, `max_items`, `handed_on`, `on_error` | `Progress.inputs`              | `outcomes` of its text   |
| tool       | `component`, `args`, `idempotent`            | `arguments`                    | a text                   |
| embed      | `component`                                  | `texts`                        | Opaque of Vectors        |
| ingest     | `component`, `index` (its step), `collection`, `start` (its first place) | `vectors` | Opaque of the index |
| search     | `component`, `k`, `index` (`step:NAME`, `collection:NAME`) | `vectors`, `held[NAME]` | hits per query     |
| search     | `component`, `k`, `index` (`component:NAME`) | `texts`                        | hits per query           |
| rerank     | `component`, `by`                            | `texts`, `held[by]`            | `scores`                 |
| the others |                                              | `Progress.held`                | `computed`               |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from workflows.definition import ITEM, SO_FAR, Definition, Output, StepSpec
from workflows.graph import Graph, Step
from workflows.names import RunId, StepId, VariableId
from workflows.plan import NO_PLAN, StepPlan, hands_on_items, piece_items
from workflows.template import names_in
from workflows.transform import Value


@dataclass(slots=True)
class Added:
    """The steps and reads that a run grows by. `Progress.grow` takes it up."""

    steps: list[Step] = field(default_factory=list)
    """Each after those it reads from, but for gathers."""
    reads: list[tuple[StepId, Mapping[str, VariableId]]] = field(default_factory=list)
    """Gathers that learn their pieces; it is all they will read."""
    values: dict[VariableId, Value] = field(default_factory=dict)
    """The values of the inputs."""

    def __bool__(self) -> bool:
        return bool(self.steps or self.reads or self.values)

    def graph(self) -> Graph:
        """A graph of these steps alone, for a run that is taken up."""
        graph = Graph(self.steps)
        for step, reads in self.reads:
            graph.read_more(step, reads)
        return graph

    def take(self, more: Added) -> None:
        """Takes up what came after it."""
        self.steps += more.steps
        self.reads += more.reads
        self.values |= more.values


class _Mode(Enum):
    """When a step that works on a list gets its pieces."""

    WHOLE = "the list is whole"
    EARLY = "an item of a splitting chat is told; or a piece of a step that works on such items is there"
    ITEMS = "the items of a map are known, each one a variable"
    PIECES = "the pieces of its source are known, each a list or vectors"


@dataclass(frozen=True, slots=True)
class _Part:
    """Some texts of a list, and where they are."""

    start: int
    """The place of the first."""
    reads: Mapping[str, VariableId] = field(default_factory=dict)
    """In order; each a text or a list."""
    given: str | None = None
    slice: tuple[int, int] | None = None
    """The slice of what it reads, if that is not all."""


@dataclass(slots=True)
class _Pieces:
    """The state of unfolding a step that works on a list."""

    told: int = 0
    """Items, or pieces, of its source that it has."""
    count: int = 0
    """Its own pieces."""
    made: list[_Part] = field(default_factory=list)
    """The parts that its own pieces write."""
    reads: dict[str, VariableId] = field(default_factory=dict)
    """The variables that its gather reads of them."""
    closed: bool = False


_LISTED = ("embed", "ingest", "search", "rerank", "map", "fold")
_GATHERS = {
    "embed": "vectors",
    "ingest": "index",
    "search": "hits",
    "rerank": "top",
    "map": "list",
    "fold": "last",
}


class Unfolding:
    """See the module. `plans` has one for each step of the definition."""

    def __init__(
        self,
        run_id: RunId,
        definition: Definition,
        plans: Mapping[str, StepPlan],
        inputs: Mapping[str, Value],
        *,
        max_items: int = 1000,
        known: Mapping[str, VariableId] = MappingProxyType({}),
    ) -> None:
        """`max_items`: the longest list that `map`, `fold` and `splits` take. `known`: variables that have an id already."""
        self._known = known
        self.definition = definition
        self.plans = plans
        self._run_id = run_id
        self._inputs = inputs
        self._max_items = max_items
        self._steps = [definition.steps[name] for name in definition.order()]
        self._over: dict[str, list[StepSpec]] = {}
        """By name, the steps that work on it as on a list."""
        self._modes: dict[str, _Mode] = {}
        self._origins: dict[str, StepId] = {}
        """The chat on whose items a step starts before its end."""
        self._pieces: dict[str, _Pieces] = {}
        for spec in self._steps:
            if spec.kind in _LISTED:
                self._over.setdefault(spec.over[0], []).append(spec)
                self._pieces[spec.name] = _Pieces()
                self._modes[spec.name] = self._mode(spec)
        self._watched = {self.variable(name): name for name in self._over}

    @property
    def output(self) -> VariableId:
        """The variable of the definition's output."""
        return self.variable(self.definition.output)

    def variable(self, name: str) -> VariableId:
        """The variable of an input, a step of the definition, or a piece (by its step's id): `var_` and 32 hex digits."""
        if (known := self._known.get(name)) is not None:
            return known
        return f"var_{blake2b(f'{self._run_id} {name}'.encode(), digest_size=16).hexdigest()}"

    # ---- what happens

    def begin(self) -> Added:
        """The graph as far as it is known from the start. Called once."""
        added = Added()
        for name, spec in self.definition.inputs.items():
            nothing: Value = [] if spec.kind == "texts" else ""
            value = self._inputs.get(name, spec.default)
            added.values[self.variable(name)] = nothing if value is None else value
        for step in self._steps:
            added.steps.append(self._gather(step) if step.kind in _LISTED else self._alone(step))
        for step in self._steps:
            if step.kind == "ingest" and self._embedded(step) and self._modes[step.name] is _Mode.WHOLE:
                # How many vectors there are does not matter.
                whole = _Part(0, {step.over[0]: self.variable(step.over[0])})
                self._unfold(step, [whole], True, added)
        for name in self.definition.inputs:
            if name in self._over:
                self._whole(name, added.values[self.variable(name)], added)
        return added

    def ready(self, variable: VariableId, value: Value) -> Added:
        """A variable has its value; what grows by it, if anything."""
        added = Added()
        name = self._watched.get(variable)
        if name is not None and name in self.definition.steps:
            self._whole(name, value, added)
        return added

    def item(self, step: StepId, index: int, text: str) -> Added:
        """An item of a list that the chat `step` is still writing; items come in order."""
        added = Added()
        for spec in self._over.get(step, ()):
            pieces = self._pieces[spec.name]
            starts = self._modes[spec.name] is _Mode.EARLY and pieces.told == index and not pieces.closed
            if starts and index < self._max_items:
                self._unfold(spec, [_Part(index, given=text)], False, added)
        return added

    def replay(self, values: Mapping[VariableId, Value]) -> Added:
        """Instead of `begin`: the graph as it is with these values of its variables stored."""
        added = self.begin()
        for variable in self._watched:
            if variable in values:
                added.take(self.ready(variable, values[variable]))
        return added

    # ---- how lists flow

    def _plan(self, spec: StepSpec) -> StepPlan:
        return self.plans.get(spec.name, NO_PLAN)

    def _embedded(self, spec: StepSpec) -> bool:
        """Tell if a step works on vectors that another made."""
        source = self.definition.steps.get(spec.over[0])
        return source is not None and source.kind == "embed"

    def _mode(self, spec: StepSpec) -> _Mode:
        plan, source = self._plan(spec), self.definition.steps.get(spec.over[0])
        if source is None or not (plan.early_items or plan.follows):
            return _Mode.WHOLE
        if plan.early_items or self._modes[source.name] is _Mode.EARLY:
            self._origins[spec.name] = self._origins.get(source.name, source.name)
            return _Mode.EARLY
        return _Mode.ITEMS if source.kind == "map" else _Mode.PIECES

    def _whole(self, name: str, value: Value, added: Added) -> None:
        """A list is whole."""
        texts = [value] if isinstance(value, str) else value
        for spec in self._over[name]:
            pieces = self._pieces[spec.name]
            source = self.definition.steps.get(name)
            if pieces.closed:
                continue
            if self._modes[spec.name] is _Mode.WHOLE:
                self._unfold(spec, self._cut(spec, texts), True, added)
            elif self._modes[spec.name] is _Mode.EARLY and source is not None and source.splits is not None:
                rest = range(pieces.told, len(texts))
                self._unfold(spec, [_Part(index, given=texts[index]) for index in rest], True, added)

    def _cut(self, spec: StepSpec, texts: Sequence[str]) -> list[_Part]:
        """A whole list in parts: one for each piece."""
        if spec.kind in ("map", "fold"):
            return [_Part(index, given=text) for index, text in enumerate(texts)]
        source = spec.over[0]
        size = self._size(spec, len(texts))
        return [
            _Part(start, {source: self.variable(source)}, None, (start, min(start + size, len(texts))))
            for start in range(0, len(texts), size)
        ]

    def _size(self, spec: StepSpec, count: int) -> int:
        """Items per piece of a list of `count`."""
        stage = self._plan(spec).stage
        return max(count, 1) if stage is None else piece_items(stage, count)

    def _unfold(self, spec: StepSpec, parts: list[_Part], last: bool, added: Added) -> None:
        """Pieces of a step for further parts of its list, and of those that follow it."""
        pieces = self._pieces[spec.name]
        if spec.kind in ("map", "fold") and pieces.told + len(parts) > self._max_items:
            # The gather says so, unless its step fails otherwise or is skipped.
            parts, last = [], True
        pieces.told += len(parts)
        if self._modes[spec.name] is _Mode.ITEMS and spec.kind not in ("map", "fold"):
            parts = _joined(parts, self._size(spec, len(parts)))
        count = len(parts) if last else None
        made = []
        for part in parts:
            made.append(self._piece(spec, part, count, added))
            pieces.count += 1
        pieces.made += made
        if last:
            pieces.closed = True
            added.reads.append((spec.name, pieces.reads))
        for follower in self._over.get(spec.name, ()):
            self._pass_on(spec, follower, made, last, added)

    def _pass_on(
        self, spec: StepSpec, follower: StepSpec, made: list[_Part], last: bool, added: Added
    ) -> None:
        """Pass what a step's pieces make on to a step that follows it."""
        match self._modes[follower.name]:
            case _Mode.EARLY:
                self._unfold(follower, made, last, added)
            case _Mode.ITEMS if last:
                self._unfold(follower, self._pieces[spec.name].made, True, added)
            case _Mode.PIECES if last and len(made) == 1 and follower.kind == "rerank":
                # One piece is the whole list, which may be cut in its turn.
                self._modes[follower.name] = _Mode.WHOLE
            case _Mode.PIECES if last:
                self._unfold(follower, made, True, added)

    # ---- steps

    def _step(
        self,
        spec: StepSpec,
        id: StepId,
        primitive: str,
        what: Mapping[str, Any],
        reads: Iterable[str] | Mapping[str, VariableId],
        *,
        head: bool = True,
        **more: Any,
    ) -> Step:
        """A part of a definition's step. `head`: it is the first to be asked, and waits for what the step waits for."""
        plan = self._plan(spec)
        known = reads if isinstance(reads, Mapping) else {name: self.variable(name) for name in reads}
        if head:
            after = dict.fromkeys((*plan.after, *spec.after))
            more["after"] = tuple(dict.fromkeys((*map(self.variable, after), *more.get("after", ()))))
            if primitive != "gather":
                more["waits"] = tuple(map(self.variable, plan.order))
            if spec.condition is not None:
                name, taken = spec.condition
                more["condition"] = (self.variable(name), "true" if taken else "false")
        outputs = more.setdefault("outputs", (Output(id),))
        more.setdefault("chat", {})
        more.setdefault("given", {})
        return Step(
            id=id,
            name=outputs[0].name if outputs else id,
            reads=known,
            writes={output.name: self.variable(output.name) for output in outputs},
            primitive=primitive,
            what=what,
            of=spec.name if spec.outputs is None else "",
            **{"depth": plan.depths.get(primitive, plan.depth), **more},
        )

    def _alone(self, spec: StepSpec) -> Step:
        """The step of a definition that is one step of the run."""
        match spec.kind:
            case "chat":
                return self._chat(spec, spec.name, spec.messages, {}, {}, 0)
            case "tool":
                return self._tool(spec, spec.name, {}, {})
            case "split":
                what: dict[str, Any] = {
                    "component": spec.component,
                    "tokens": spec.tokens,
                    "overlap": spec.overlap,
                }
            case "when":
                what = {"test": list(spec.test)}
            case "merge":
                what = {"how": spec.how, "k": spec.k, "over": list(spec.over)}
            case _:
                what = {}
        outputs = (Output(spec.name, spec.transforms),)
        first = spec.kind in ("first_of", "merge")
        return self._step(spec, spec.name, spec.kind, what, spec.needs, outputs=outputs, first=first)

    def _gather(self, spec: StepSpec) -> Step:
        """Joins the pieces of a step. It reads all that they do, too: of an empty list there are none."""
        what: dict[str, Any] = {"how": _GATHERS[spec.kind], "list": spec.over[0]}
        match spec.kind:
            case "rerank":
                what["k"] = spec.k
            case "fold":
                what |= {"initial": spec.initial, "max_items": self._max_items}
            case "map":
                what["max_items"] = self._max_items
            case "ingest" | "embed":
                what["component"] = spec.component
                what["collection"] = spec.collection
        return self._step(spec, spec.name, "gather", what, spec.needs, open=True, depth=0)

    def _piece(self, spec: StepSpec, part: _Part, count: int | None, added: Added) -> _Part:
        """One piece of a step that works on a list; gives what it writes."""
        pieces = self._pieces[spec.name]
        match spec.kind:
            case "map" | "fold":
                id = f"{spec.name}[{part.start}]"
                step = self._item(spec, id, part, count)
                added.steps.append(step)
                if spec.kind == "map" or part.start + 1 == count:
                    pieces.reads[id] = self.variable(id)
                return _Part(part.start, {id: self.variable(id)})
            case "rerank":
                return self._reranked(spec, part, added)
        used = self._on_vectors(spec, part, added)
        pieces.reads[used] = self.variable(used)
        return _Part(part.start, {used: self.variable(used)})

    def _item(self, spec: StepSpec, id: StepId, part: _Part, count: int | None) -> Step:
        """One turn of a map or a fold."""
        given: dict[str, str] = {} if part.given is None else {ITEM: part.given}
        reads = dict(zip((ITEM,), part.reads.values(), strict=False))
        if spec.tool:
            return self._tool(spec, id, given, reads)
        if spec.kind == "map":
            return self._chat(spec, id, spec.messages, given, reads, 0)
        if part.start == 0:
            given[SO_FAR] = spec.initial
        else:
            reads[SO_FAR] = self.variable(f"{spec.name}[{part.start - 1}]")
        first = part.start == 0 and spec.first
        left = 0 if count is None else count - 1 - part.start
        return self._chat(spec, id, spec.first if first else spec.messages, given, reads, left)

    def _chat(
        self,
        spec: StepSpec,
        id: StepId,
        messages: Sequence[Mapping[str, Any]],
        given: Mapping[str, str],
        reads: Mapping[str, VariableId],
        left: int,
    ) -> Step:
        """`left`: turns of a fold behind it."""
        known = {ITEM, SO_FAR, *spec.given} - spec.sources.keys()
        names = [name for name in names_in(messages) if name not in known]
        model = {"model": spec.model} if spec.model else {}
        what: dict[str, Any] = {}
        if spec.splits is not None:
            what = {
                "splits": {"how": spec.splits.how, "pattern": spec.splits.pattern},
                "max_items": self._max_items,
                "handed_on": hands_on_items(self.definition, spec),
            }
        if spec.on_error is not None:
            what["on_error"] = asdict(spec.on_error)
        return self._step(
            spec,
            id,
            "chat",
            what,
            {**{name: self.variable(spec.sources.get(name, name)) for name in names}, **reads},
            given={**spec.given, **given},
            chat={**model, **spec.params, "messages": list(messages)},
            outputs=(Output(id, spec.transforms),) if spec.outputs is None else spec.outputs,
            depth=self._plan(spec).depths.get("chat", 0) + left,
            says=self.variable(spec.name) if spec.kind == "fold" and not left else None,
            **self._of_list(spec, given),
        )

    def _tool(
        self, spec: StepSpec, id: StepId, given: Mapping[str, str], reads: Mapping[str, VariableId]
    ) -> Step:
        return self._step(
            spec,
            id,
            "tool",
            {"component": spec.component, "args": spec.args, "idempotent": spec.idempotent},
            {**{name: self.variable(name) for name in spec.reads}, **reads},
            given=given,
            outputs=(Output(id, spec.transforms),),
            effects=spec.effects,
            **self._of_list(spec, given),
        )

    def _of_list(self, spec: StepSpec, given: Mapping[str, str]) -> dict[str, Any]:
        """Return how an item's step depends on the list that its item is of."""
        if (origin := self._origins.get(spec.name)) is not None:
            return {"early": origin}
        return {"after": (self.variable(spec.over[0]),)} if ITEM in given else {}

    def _texts(self, spec: StepSpec, part: _Part) -> tuple[dict[str, Any], dict[str, Any]]:
        """(of `what`, of the step): how a piece knows its texts."""
        more: dict[str, Any] = {} if part.given is None else {"given": {ITEM: part.given}}
        if (origin := self._origins.get(spec.name)) is not None:
            more["early"] = origin
        what: dict[str, Any] = {"texts": [ITEM] if part.given is not None else list(part.reads)}
        return what if part.slice is None else {**what, "slice": list(part.slice)}, more

    def _reranked(self, spec: StepSpec, part: _Part, added: Added) -> _Part:
        """A piece of a `rerank`: scores."""
        pieces = self._pieces[spec.name]
        id = f"{spec.name}.rerank[{pieces.count}]"
        what, more = self._texts(spec, part)
        what |= {"component": spec.component, "by": spec.by}
        reads = {**part.reads, spec.by: self.variable(spec.by)}
        added.steps.append(self._step(spec, id, "rerank", what, reads, **more))
        pieces.reads[id] = self.variable(id)
        source = self.definition.steps.get(spec.over[0])
        if source is not None and source.kind == "search" and part.slice is None:
            # Which texts the scores are of: those of the whole list stand in another order.
            pieces.reads |= part.reads
        return _Part(part.start, {id: self.variable(id)})

    def _on_vectors(self, spec: StepSpec, part: _Part, added: Added) -> StepId:
        """A piece of a step that embeds, or works on what was embedded; gives the id of its last primitive."""
        place = self._pieces[spec.name].count
        texts, more = self._texts(spec, part)
        asks = spec.kind == "search" and spec.index.startswith("component:")
        vectors = part.reads
        if not asks and not (spec.kind == "ingest" and self._embedded(spec)):
            id = f"{spec.name}.embed[{place}]"
            what = {**texts, "component": spec.component}
            added.steps.append(self._step(spec, id, "embed", what, part.reads, **more))
            if spec.kind == "embed":
                return id
            vectors = {id: self.variable(id)}
            texts = {}
            more.pop("given", None)
        id = f"{spec.name}.{spec.kind}[{place}]"
        reads = dict(vectors)
        what = {**texts, "component": spec.component}
        if not asks:
            what["vectors"] = next(iter(vectors))
        if spec.kind == "ingest":
            what |= {"index": spec.name, "collection": spec.collection, "start": part.start}
        else:
            what |= {"index": spec.index, "k": spec.k}
            reads |= {name: self.variable(name) for name in spec.reads}
        head = asks or vectors is part.reads
        added.steps.append(self._step(spec, id, spec.kind, what, reads, head=head, **more))
        return id


def _joined(parts: Sequence[_Part], size: int) -> list[_Part]:
    """Parts of one item each, put together in pieces."""
    groups = [parts[at : at + size] for at in range(0, len(parts), size)]
    return [
        _Part(group[0].start, {name: id for part in group for name, id in part.reads.items()})
        for group in groups
    ]
