"""A declared workflow: named steps over named inputs, as it was read from the configuration or from a client.

`workflows.declared` reads one, `workflows.called` reads the inputs of a call. Everything here is frozen and in memory only;
what is stored of a run is `dumped`, which `loaded` reads without a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

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
"""Names in the templates of `map` (the first) and `fold` (both) that no input and no step may have."""

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
    """Its value where a call does not give one; None where it is required."""


@dataclass(frozen=True, slots=True)
class OnError:
    """What becomes of a chat whose engine fails, or whose answer cannot be read."""

    retry: int = 0
    """How often it is asked again; an answer that could not be read is followed by why."""
    default: Value | None = None
    """Taken for its value then."""
    skip: bool = False
    """Or it is skipped, as if its branch was not taken."""


@dataclass(frozen=True, slots=True)
class Splits:
    """How a chat's answer becomes a list."""

    how: Literal["json", "lines", "regex"]
    pattern: str = ""
    """RE2, for `regex`: each match is an item (its group 1, else the whole match)."""


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
    """Of `fold`: the templates for its first item, where they differ."""
    reads: tuple[str, ...] = ()
    """All further names it reads, each once: in templates, `by`, `in`, `args`; without `item` and `so_far`."""
    after: tuple[str, ...] = ()
    condition: tuple[str, bool] | None = None
    """(a `when` step, True for `if` and False for `unless`)."""
    model: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the chat body: sampling, `response_format`."""
    component: str = ""
    """Who embeds, reranks or is called. Of a `search` in an index: the embedder of its queries, the index's own."""
    index: str = ""
    """Of `search`: `step:NAME` (an `ingest`), `collection:NAME` or `component:NAME` (a search component)."""
    collection: str = ""
    """Of `ingest`: the tenant's collection that keeps it; empty for an index of the run."""
    by: str = ""
    """Of `rerank`: the name of the text that it scores by."""
    k: int = 0
    """Of `search` (per query), `rerank` and `merge` with `top`: the most it yields. 0 for a `merge`: all."""
    tokens: int = 0
    overlap: int = 0
    """Of `split`, both in tokens of the embedder `component`."""
    splits: Splits | None = None
    items: int | None = None
    """Of a `chat` with `splits`: the number expected, for drawing and depth only."""
    transforms: tuple[Transform, ...] = ()
    test: tuple[str, str | float] = ("", "")
    """Of `when`: (`equals`, `matches`, `contains` or `above`; its argument)."""
    how: str = ""
    """Of `merge`: `concat` or `top`."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """Of a tool: JSON whose texts are templates. A text that is one reference and nothing else, to a list, is a list."""
    effects: bool = False
    idempotent: bool = False
    initial: str = ""
    on_error: OnError | None = None

    @property
    def tool(self) -> bool:
        """Whether it calls a tool, once or per item."""
        return self.kind == "tool" or (self.kind == "map" and not self.messages)

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
    """Whether each step also waits for the end of the one before it (`chain:`)."""
    output: str
    """The step whose value answers."""
    passes: frozenset[Pass]
    version: str
    """16 hex digits of the hash of `source` as canonical JSON; two definitions alike have one version."""
    source: Mapping[str, Any]
    """The JSON it was read from."""

    @property
    def repeatable(self) -> bool:
        """Whether who asks the same may get the same answer, without a run: no step asks anything but models and what
        computes, whose answers hang on the inputs alone, or has effects."""
        return not any(
            each.tool
            or each.effects
            or each.collection
            or each.index.startswith(("collection:", "component:"))
            for each in self.steps.values()
        )

    def before(self, step: str) -> tuple[str, ...]:
        """The steps a step refers to, each once: those it reads, `after`, its condition. Without the order of a chain."""
        spec = self.steps[step]
        condition = () if spec.condition is None else (spec.condition[0],)
        named = dict.fromkeys((*spec.needs, *spec.after, *condition))
        return tuple(name for name in named if name in self.steps)


def dumped(definition: Definition) -> dict[str, Any]:
    """A definition as JSON values, with everything that was resolved when it was read: `loaded` needs no configuration."""
    kept = asdict(definition)
    kept["passes"] = sorted(definition.passes)
    return kept


def loaded(kept: Mapping[str, Any]) -> Definition:
    """The definition that `dumped` was made of."""
    inputs = {name: InputSpec(**each) for name, each in kept["inputs"].items()}
    steps = {name: _loaded_step(each) for name, each in kept["steps"].items()}
    return Definition(**{**kept, "inputs": inputs, "steps": steps, "passes": frozenset(kept["passes"])})


def _loaded_step(kept: Mapping[str, Any]) -> StepSpec:
    tuples = {name: tuple(kept[name]) for name in ("over", "messages", "first", "reads", "after", "test")}
    return StepSpec(
        **{
            **kept,
            **tuples,
            "condition": None if kept["condition"] is None else tuple(kept["condition"]),
            "splits": None if kept["splits"] is None else Splits(**kept["splits"]),
            "on_error": OnError(**kept["on_error"]) if kept.get("on_error") else None,
            "transforms": tuple(Transform(**each) for each in kept["transforms"]),
        }
    )
