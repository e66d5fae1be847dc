"""The p-graph of a definition: its steps taken apart into primitives, which depend on each other one by one.

After Teola (https://arxiv.org/abs/2407.00326), §4.1 and its Algorithm 1. A node stands for all items of its step: how many
there are is known only while it runs, so a pass notes on a node how it may be cut, and `expand` draws the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Literal, NamedTuple

from workflows.definition import Definition, Kind, StepSpec
from workflows.template import slots_in

Primitive = Literal[
    "split",
    "embed",
    "ingest",
    "search",
    "rerank",
    "prefill",
    "decode",
    "partial_decode",
    "tool",
    "condition",
    "aggregate",
    "transform",
]
"""Table 1 of the paper, and what a workflow has besides. `aggregate`: joins pieces, branches or parts."""
EdgeKind = Literal["data", "items", "after", "order", "effect"]
"""`data`: a whole value. `items`: pieces of one, each on as it is there. `after`: must have ended well, or been skipped.
`order`: must have ended, however. `effect`: as `after`, around a tool that changes something."""
Per = Literal["step", "item", "turn"]
"""How often a primitive runs: once; once per item of a list, in any order; once per item, each after the one before."""


@dataclass(frozen=True, slots=True)
class Node:
    """One primitive of a step."""

    id: str
    """`index.embed`; what joins a step's pieces has the step's name."""
    step: str
    primitive: Primitive
    engine: str = ""
    """The component or the model that is asked; empty for what the gateway computes."""
    per: Per = "step"
    list: str = ""
    """Of `per` "item" and "turn": the name whose list it goes over."""
    apart: bool = False
    """Of `per` "item": whether each item goes on its own in any case, as in a `map`; else a whole list goes at once."""
    stage: int | None = None
    """Items per piece, where a list longer than that is cut; None: it is not."""
    early: bool = False
    """Whether it runs on items of a splitting chat before that chat's answer is whole."""
    prompt: tuple[str, ...] = ()
    """Of prefillings: the names in the part of the prompt that it computes, in order."""


class Edge(NamedTuple):
    """The second node waits for the first."""

    before: str
    after: str
    kind: EdgeKind


@dataclass(frozen=True)
class PrimitiveGraph:
    """Primitives and what they wait for: a p-graph as built, an e-graph after the passes. Never changed in place."""

    nodes: Mapping[str, Node]
    """By id, in the order of the definition."""
    edges: tuple[Edge, ...]
    """Each once."""
    heads: Mapping[str, str]
    """The first primitive of each step."""
    tails: Mapping[str, str]
    """The primitive whose result is the step's value."""

    @cached_property
    def into(self) -> Mapping[str, tuple[Edge, ...]]:
        """The edges that end at each node."""
        return _patched({}, self.nodes, frozenset(), self.edges, _after)

    @cached_property
    def out_of(self) -> Mapping[str, tuple[Edge, ...]]:
        """The edges that begin at each node."""
        return _patched({}, self.nodes, frozenset(), self.edges, _before)

    def of(self, step: str) -> tuple[Node, ...]:
        """The nodes of a step, in order."""
        return tuple(node for node in self.nodes.values() if node.step == step)

    def changed(
        self,
        *,
        put: Iterable[Node] = (),
        dropped: AbstractSet[Edge] = frozenset(),
        added: Iterable[Edge] = (),
        tails: Mapping[str, str] = MappingProxyType({}),
    ) -> PrimitiveGraph:
        """The same graph with some nodes put in, in place of those of the same id, and edges dropped and added."""
        nodes = {**self.nodes, **{node.id: node for node in put}}
        more = [edge for edge in dict.fromkeys(added) if edge not in self.into.get(edge.after, ())]
        edges = tuple(edge for edge in self.edges if edge not in dropped) if dropped else self.edges
        made = PrimitiveGraph(nodes, (*edges, *more), self.heads, {**self.tails, **tails})
        # A pass changes little of a graph: what is known of the rest is kept.
        made.__dict__["into"] = _patched(self.into, nodes, dropped, more, _after)
        made.__dict__["out_of"] = _patched(self.out_of, nodes, dropped, more, _before)
        return made

    def order(self) -> tuple[str, ...]:
        """The ids of all nodes, each after those it waits for."""
        missing = {node: len(self.into[node]) for node in self.nodes}
        order = [node for node, count in missing.items() if not count]
        for node in order:
            for edge in self.out_of[node]:
                missing[edge.after] -= 1
                if not missing[edge.after]:
                    order.append(edge.after)
        return tuple(order)


_before: Callable[[Edge], str] = attrgetter("before")
_after: Callable[[Edge], str] = attrgetter("after")


def _patched(
    known: Mapping[str, tuple[Edge, ...]],
    nodes: Iterable[str],
    dropped: AbstractSet[Edge],
    added: Iterable[Edge],
    end: Callable[[Edge], str],
) -> Mapping[str, tuple[Edge, ...]]:
    """The edges at one end of each node, from what was known before some went and others came."""
    found = {**dict.fromkeys(nodes, ()), **known}
    for node in {end(edge) for edge in dropped}:
        found[node] = tuple(edge for edge in found[node] if edge not in dropped)
    more: dict[str, list[Edge]] = {}
    for edge in added:
        more.setdefault(end(edge), []).append(edge)
    for node, edges in more.items():
        found[node] = (*found[node], *edges)
    return found


def build(definition: Definition) -> PrimitiveGraph:
    """The p-graph of a definition: Algorithm 1, `GraphTransform`."""
    parts = {name: _decomposed(step, definition) for name, step in definition.steps.items()}
    graph = PrimitiveGraph(
        {node.id: node for part in parts.values() for node in part.nodes},
        (),
        {name: part.nodes[0].id for name, part in parts.items()},
        {name: part.nodes[-1].id for name, part in parts.items()},
    )
    edges: dict[Edge, None] = {}
    for name, part in parts.items():
        edges |= dict.fromkeys(part.inner)
        edges |= dict.fromkeys(
            Edge(graph.tails[read], node, "data") for read, node in part.reads if read in graph.tails
        )
        edges |= dict.fromkeys(_ordered(definition, definition.steps[name], graph))
    edges |= dict.fromkeys(_around_effects(definition, graph))
    bound = {(edge.before, edge.after) for edge in edges if edge.kind != "order"}
    kept = (edge for edge in edges if edge.kind != "order" or (edge.before, edge.after) not in bound)
    return PrimitiveGraph(graph.nodes, tuple(kept), graph.heads, graph.tails)


def _ordered(definition: Definition, step: StepSpec, graph: PrimitiveGraph) -> Iterable[Edge]:
    """The template's edges, from the tail of one step to the head of another."""
    head = graph.heads[step.name]
    for each in step.after:
        yield Edge(graph.tails[each], head, "after")
    if step.condition is not None:
        yield Edge(graph.tails[step.condition[0]], head, "data")
    for each in definition.before(step.name):
        yield Edge(graph.tails[each], head, "order")
    if definition.chained:
        names = list(definition.steps)
        place = names.index(step.name)
        if place:
            yield Edge(graph.tails[names[place - 1]], head, "order")


def _around_effects(definition: Definition, graph: PrimitiveGraph) -> Iterable[Edge]:
    """In a chain, a tool that changes something comes after all earlier steps, and before all later ones."""
    if not definition.chained:
        return
    names = list(definition.steps)
    for place, name in enumerate(names):
        if definition.steps[name].tool and definition.steps[name].effects:
            for earlier in names[:place]:
                yield Edge(graph.tails[earlier], graph.heads[name], "effect")
            for later in names[place + 1 :]:
                yield Edge(graph.tails[name], graph.heads[later], "effect")


# ---- one step


@dataclass(frozen=True, slots=True)
class _Part:
    """A step's primitives, the edges between them, and which of them reads which name."""

    nodes: tuple[Node, ...]
    inner: tuple[Edge, ...] = ()
    reads: tuple[tuple[str, str], ...] = ()


def _decomposed(step: StepSpec, definition: Definition) -> _Part:
    if step.kind == "ingest":
        source = definition.steps.get(step.over[0])
        embedded = source is not None and source.kind == "embed"
        return _over_items("ingest")(step) if embedded else _embedded(step, "ingest")
    return _DECOMPOSED[step.kind](step)


def _alone(primitive: Primitive) -> Callable[[StepSpec], _Part]:
    """A step that is one primitive, which reads everything."""

    def made(step: StepSpec) -> _Part:
        node = Node(f"{step.name}.{primitive}", step.name, primitive, step.component)
        return _Part((node,), reads=tuple((name, node.id) for name in step.needs))

    return made


def _over_items(primitive: Primitive) -> Callable[[StepSpec], _Part]:
    """A step that is one primitive on each item of a list."""

    def made(step: StepSpec) -> _Part:
        node = Node(
            f"{step.name}.{primitive}", step.name, primitive, step.component, per="item", list=step.over[0]
        )
        return _Part((node,), reads=tuple((name, node.id) for name in step.needs))

    return made


def _embedded(step: StepSpec, primitive: Primitive) -> _Part:
    """Items are embedded, and their vectors used: kept in an index, or looked for in one."""
    over = step.over[0]
    embed = Node(f"{step.name}.embed", step.name, "embed", step.component, per="item", list=over)
    use = Node(f"{step.name}.{primitive}", step.name, primitive, per="item", list=over)
    reads = ((over, embed.id), *((name, use.id) for name in step.reads))
    return _Part((embed, use), (Edge(embed.id, use.id, "data"),), reads)


def _search(step: StepSpec) -> _Part:
    return _over_items("search")(step) if step.index.startswith("component:") else _embedded(step, "search")


def _chat(step: StepSpec) -> _Part:
    return _asked(step, "step")


def _map(step: StepSpec) -> _Part:
    part = _asked(step, "item") if step.messages else _mapped_tool(step)
    join = Node(step.name, step.name, "aggregate")
    last = part.nodes[-1]
    return _Part((*part.nodes, join), (*part.inner, Edge(last.id, join.id, "data")), part.reads)


def _mapped_tool(step: StepSpec) -> _Part:
    node = Node(
        f"{step.name}.tool", step.name, "tool", step.component, per="item", list=step.over[0], apart=True
    )
    return _Part((node,), reads=tuple((name, node.id) for name in step.needs))


def _fold(step: StepSpec) -> _Part:
    return _asked(step, "turn")


def _asked(step: StepSpec, per: Per) -> _Part:
    over = "" if per == "step" else step.over[0]
    apart = per == "item"
    prompt = tuple(dict.fromkeys(name for _, _, name in slots_in(step.messages)))
    prefill = Node(f"{step.name}.prefill", step.name, "prefill", step.model, per, over, apart, prompt=prompt)
    decode = Node(f"{step.name}.decode", step.name, "decode", step.model, per, over, apart)
    reads = tuple((name, prefill.id) for name in step.needs)
    inner = Edge(prefill.id, decode.id, "items" if apart else "data")
    return _Part((prefill, decode), (inner,), reads)


_DECOMPOSED: Mapping[Kind, Callable[[StepSpec], _Part]] = {
    "split": _alone("split"),
    "embed": _over_items("embed"),
    "search": _search,
    "rerank": _over_items("rerank"),
    "chat": _chat,
    "tool": _alone("tool"),
    "map": _map,
    "fold": _fold,
    "when": _alone("condition"),
    "first_of": _alone("aggregate"),
    "merge": _alone("aggregate"),
    "transform": _alone("transform"),
}
