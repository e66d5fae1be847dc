"""The p-graph of a definition: its steps taken apart into primitives, which depend on each other one by one.

After Teola (https://arxiv.org/abs/2407.00326), §4.1 and its Algorithm 1. A node stands for all items of its step: how many
there are is known only while it runs, so a pass notes on a node how it may be cut, and `expand` draws the pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Primitive = Literal[
    "split",
    "embed",
    "ingest",
    "search",
    "rerank",
    "prefill",
    "partial_prefill",
    "full_prefill",
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
    """`index.embed`; a primitive alone in its step has the step's name."""
    step: str
    primitive: Primitive
    engine: str = ""
    """The component or the model that is asked; empty for what the gateway computes."""
    per: Per = "step"
    list: str = ""
    """The name whose list tells how many items there are; empty for `per` "step" over a text."""
    stage: int | None = None
    """Items per piece, where a list longer than that is cut; None: it is not."""
    early: bool = False
    """Whether it runs on items of a splitting chat before that chat's answer is whole."""
    prompt: tuple[str, ...] = ()
    """Of prefillings: the names in the part of the prompt that it computes, in order."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The second node waits for the first."""

    before: str
    after: str
    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class PrimitiveGraph:
    """Primitives and what they wait for: a p-graph as built, an e-graph after the passes."""

    nodes: dict[str, Node]
    """By id, in the order of the definition."""
    edges: tuple[Edge, ...]
    """Each (before, after, kind) once."""
    heads: dict[str, str]
    """The first primitive of each step."""
    tails: dict[str, str]
    """The primitive whose result is the step's value."""
