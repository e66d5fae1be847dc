"""A declared workflow: named steps over named inputs, as it was read from the configuration or from a client.

`workflows.declared` reads one, `workflows.called` reads the inputs of a call. Everything here is frozen and in memory only;
what is stored of a run is `dumped`, which `loaded` reads without a configuration.
"""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from pydantic import TypeAdapter

from workflows.transform import Transform, Value

Kind = Literal[
    "chat",
    "split",
    "embed",
    "ingest",
    "search",
    "rerank",
    "tool",
    "map",
    "fold",
    "loop",
    "when",
    "first_of",
    "merge",
    "transform",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
Pass = Literal["prune", "stages", "decoding"]
PASSES: tuple[Pass, ...] = get_args(Pass)
"""The passes over a workflow's graph, in the order in which they are tried."""
ITEM = "item"
SO_FAR = "so_far"
PLACES = (ITEM, SO_FAR)
"""Names in the templates of `map` (the first), `fold` (both) and `loop` (the second) that no input and no step may have."""

InputKind = Literal["last_user", "system", "text", "texts", "json"]
"""`last_user` and `system`: the text of the chat's last user message, of its system and developer messages. `json`: any JSON
value; a list becomes a list of texts, anything else its JSON text."""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input of a workflow."""

    name: str
    kind: InputKind
    required: bool = True
    default: Value | None = None
    """Its value where a call does not give one; None if it is required."""


@dataclass(frozen=True, slots=True)
class OnError:
    """The rules for a chat whose engine fails, or whose answer cannot be read."""

    retry: int = 0
    """The number of times it is asked again; an answer that could not be read is followed by why."""
    default: Value | None = None
    """Taken for its value then."""
    skip: bool = False
    """Or it is skipped, as if its branch was not taken."""


@dataclass(frozen=True, slots=True)
class Splits:
    """The way in which a chat's answer becomes a list."""

    how: Literal["json", "lines", "regex"]
    pattern: str = ""
    """RE2, for `regex`: each match is an item (its group 1, else the whole match)."""


@dataclass(frozen=True, slots=True)
class Output:
    """One variable that a step writes."""

    name: str
    transforms: tuple[Transform, ...] = ()


@dataclass(frozen=True, slots=True)
class StepSpec:
    """One step of a definition. Fields that its kind does not use are empty."""

    name: str
    kind: Kind
    over: tuple[str, ...] = ()
    """Names of what it works on: one; of `merge` and `first_of` several; of `chat` and `tool` none. `search`: queries."""
    messages: tuple[Mapping[str, Any], ...] = ()
    """Templates, of `chat`, `fold`, and a `map` of chats (a map without messages calls the tool `component`)."""
    first: tuple[Mapping[str, Any], ...] = ()
    """The templates for the first item of a `fold`, if they differ."""
    reads: tuple[str, ...] = ()
    """All further names it reads, each once: in templates, `by`, `in`, `args`; without `item` and `so_far`."""
    after: tuple[str, ...] = ()
    condition: tuple[str, bool] | None = None
    """(a `when` step, True for `if` and False for `unless`)."""
    model: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the chat body: sampling, `response_format`."""
    component: str = ""
    """The component that embeds, reranks or is called. For a `search` in an index: the index's own embedder."""
    index: str = ""
    """For `search`: `step:NAME` (an `ingest`), `collection:NAME` or `component:NAME` (a search component)."""
    collection: str = ""
    """For `ingest`: the tenant's collection that keeps it; empty for an index of the run."""
    by: str = ""
    """For `rerank`: the name of the text that it scores by."""
    k: int = 0
    """For `search` (per query), `rerank` and `merge` with `top`: the most it yields. 0 for a `merge`: all."""
    tokens: int = 0
    overlap: int = 0
    """For `split`, both in tokens of the embedder `component`."""
    splits: Splits | None = None
    items: int | None = None
    """For a `chat` with `splits`: the number expected, for drawing and depth only."""
    transforms: tuple[Transform, ...] = ()
    test: tuple[str, str | float] = ("", "")
    """For `when`, and a `loop`, which ends when it holds: (`equals`, `matches`, `contains` or `above`; its argument)."""
    how: str = ""
    """For `merge`: `concat` or `top`."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """For a tool: JSON whose texts are templates. A text that is one reference and nothing else, to a list, is a list."""
    effects: bool = False
    idempotent: bool = False
    initial: str = ""
    on_error: OnError | None = None
    max_rounds: int = 0
    """For a `loop`: the most turns it takes; 0 for any other kind."""
    outputs: tuple[Output, ...] | None = None
    """The variables that it writes; None: one of its own name."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Texts that came with it, by the names that its templates have for them."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The names that its templates' names stand for, if those are called something else."""

    @property
    def writes(self) -> tuple[str, ...]:
        """The names of what it writes."""
        return (self.name,) if self.outputs is None else tuple(output.name for output in self.outputs)

    @property
    def acts(self) -> bool:
        """Tell if it calls a tool that changes something."""
        return self.tool and self.effects

    @property
    def tool(self) -> bool:
        """Tell if it calls a tool, once or per item."""
        return self.kind == "tool" or (self.kind == "map" and not self.messages)

    @property
    def refers(self) -> tuple[str, ...]:
        """Every name that it refers to, inputs and steps, each once: `needs`, `after`, its condition."""
        return tuple(dict.fromkeys((*self.needs, *self.after, *(self.condition or ())[:1])))

    @property
    def needs(self) -> tuple[str, ...]:
        """Every name whose value it uses, inputs and steps, each once: `over`, then `reads`."""
        return tuple(dict.fromkeys((*self.over, *self.reads)))


@dataclass(frozen=True, slots=True)
class Definition:
    """A workflow that was read and checked: every name in it exists, and there is no cycle."""

    name: str
    inputs: Mapping[str, InputSpec]
    steps: Mapping[str, StepSpec]
    """In the order written; under `steps:` a step may read a later one."""
    chained: bool
    """True if each step also waits for the end of the one before it (`chain:`)."""
    output: str
    """The step whose value answers."""
    passes: frozenset[Pass]
    version: str
    """16 hex digits of the hash of `source` as canonical JSON; two definitions alike have one version."""
    source: Mapping[str, Any]
    """The JSON it was read from."""
    writers: Mapping[str, str] = field(init=False, compare=False, repr=False)
    """The step that writes a name."""

    def __post_init__(self) -> None:
        writers = {name: step.name for step in self.steps.values() for name in step.writes}
        object.__setattr__(self, "writers", writers)

    @property
    def repeatable(self) -> bool:
        """Tell if who asks the same may get the same answer, without a run.

        No step may ask anything but models and what computes, whose answers hang on the inputs alone, or have effects.
        """
        return not any(
            each.tool
            or each.effects
            or each.collection
            or each.index.startswith(("collection:", "component:"))
            for each in self.steps.values()
        )

    @property
    def calls_tools(self) -> bool:
        """Tell if it can answer with calls of a client's tools: its output is a chat's answer as it came."""
        spec = self.steps[self.output]
        return spec.kind == "chat" and spec.splits is None and not spec.transforms

    def before(self, step: str) -> tuple[str, ...]:
        """The steps a step refers to, each once: those it reads, `after`, its condition. Without the order of a chain."""
        named = (self.writers.get(name) for name in self.steps[step].refers)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def order(self) -> tuple[str, ...]:
        """All steps, each after those it refers to."""
        before = {name: self.before(name) for name in self.steps}
        return tuple(graphlib.TopologicalSorter(before).static_order())


def turns(loop: StepSpec) -> Iterator[StepSpec]:
    """The steps that a `loop` is: in turns a chat, which reads the answer of the one before, and a test of its answer.

    Once that holds, all further turns are skipped; the last answer that there is has the loop's name.
    """
    chats: list[str] = []
    for turn in range(loop.max_rounds):
        name, ends, before = f"{loop.name}[{turn}]", f"{loop.name}.until[{turn}]", chats[-1:]
        chat = replace(
            loop,
            name=name,
            kind="chat",
            messages=loop.messages if before or not loop.first else loop.first,
            reads=(*loop.reads, *before),
            given={} if before else {SO_FAR: loop.initial},
            sources=dict(zip((SO_FAR,), before, strict=False)),
        )
        yield replace(chat, condition=(f"{loop.name}.until[{turn - 1}]", False)) if before else chat
        if turn < loop.max_rounds - 1:
            yield StepSpec(ends, "when", (name,), test=loop.test)
        chats.append(name)
    yield StepSpec(loop.name, "first_of", tuple(reversed(chats)))


def submitted(steps: Iterable[StepSpec]) -> Definition:
    """The definition of steps that a client submitted: it has no name, no inputs, and no one output."""
    return Definition("", {}, {step.name: step for step in steps}, False, "", frozenset(), "", {})


def dumped(definition: Definition) -> dict[str, Any]:
    """A definition as JSON values, with everything that was resolved when it was read: `loaded` needs no configuration."""
    kept = asdict(definition)
    kept["passes"] = sorted(definition.passes)
    del kept["writers"]
    return kept


def loaded(kept: Mapping[str, Any]) -> Definition:
    """The definition that `dumped` was made of."""
    return _KEPT.validate_python(kept)


_KEPT = TypeAdapter(Definition)
