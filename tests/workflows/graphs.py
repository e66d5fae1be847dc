"""Graphs for tests, and a strategy that makes any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import strategies as st

from workflows.definition import Output
from workflows.graph import Graph, Step

MESSAGES = [{"role": "user", "content": ""}]


def step(name: str, *reads: str, writes: Iterable[str] | None = None) -> Step:
    """A step that reads variables and writes one of its own name; here a variable's id is its name."""
    names = tuple(writes if writes is not None else (name,))
    content = " ".join(f"{{{{{each}}}}}" for each in reads)
    return Step(
        f"s-{name}",
        name,
        {"messages": [{"role": "user", "content": content}]},
        {},
        {each: each for each in reads},
        {each: each for each in names},
        tuple(Output(each) for each in names),
    )


def graph(**reads: str) -> Graph:
    """`graph(b="a", c="a b")`: step b reads variable a, step c reads a and b."""
    return Graph(step(name, *each.split()) for name, each in reads.items())


def ids(names: str) -> list[str]:
    return [f"s-{name}" for name in names.split()]


@st.composite
def graphs(draw: st.DrawFn, max_steps: int = 12) -> Mapping[str, tuple[str, ...]]:
    """What each step reads, without cycles, in any order; `x0` to `x2` come from outside."""
    count = draw(st.integers(1, max_steps))
    reads = {
        f"v{n}": tuple(
            draw(st.sets(st.sampled_from([*(f"v{m}" for m in range(n)), "x0", "x1", "x2"]), max_size=4))
        )
        for n in range(count)
    }
    return {name: reads[name] for name in draw(st.permutations(list(reads)))}
