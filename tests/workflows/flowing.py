"""Definitions whose lists flow: most of their steps work on the list of the step before, and many start on a list that a
chat is still writing. `tests.workflows.definitions` draws any; of those few have pieces that go on by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import strategies as st

from tests.workflows.definitions import (
    EMBEDDER,
    NOTIFY,
    RERANKER,
    TOOL,
    WEB,
    chat_messages,
    definition,
)
from workflows.definition import Definition, Splits, StepSpec
from workflows.transform import Value

_SPLITS = [Splits("json"), Splits("lines"), Splits("regex", "[a-z]+")]


@st.composite
def flowing(draw: st.DrawFn) -> Definition:
    """A list, steps over it and over each other, and something that may fail or be skipped beside."""
    steps = [_source(draw)]
    lists = {"documents": 1, steps[0].name: 4}
    indexes: list[str] = []
    if draw(st.integers(0, 2)):
        test = draw(st.sampled_from([("contains", "a"), ("above", 4.0)]))
        steps.append(StepSpec("w", "when", ("question",), test=test))
    for number in range(draw(st.integers(1, 6))):
        names = [name for name, weight in reversed(lists.items()) for _ in range(weight)]
        over = draw(st.sampled_from(names))
        step = _step(draw, f"s{number}", over, indexes)
        if steps[1:] and draw(st.integers(0, 7)) == 0:
            step = replace(step, after=(draw(st.sampled_from(steps)).name,))
        if steps[1:] and steps[1].kind == "when" and draw(st.integers(0, 2)) == 0:
            step = replace(step, condition=("w", draw(st.booleans())))
        steps.append(step)
        if step.kind == "ingest":
            indexes.append(step.name)
        if step.kind in ("map", "search", "rerank"):
            # Rather on what is new than on what is old.
            lists = {name: max(1, weight // 2) for name, weight in lists.items()} | {step.name: 6}
    outputs = [step.name for step in steps if step.kind not in ("ingest", "embed")]
    return definition(*steps, output=draw(st.sampled_from(outputs)), chained=draw(st.integers(0, 4)) == 4)


def _source(draw: st.DrawFn) -> StepSpec:
    if draw(st.integers(0, 3)) == 3:
        return StepSpec("l", "map", ("documents",), chat_messages("Of {{item}}"), model="small")
    return StepSpec(
        "l",
        "chat",
        messages=chat_messages("List {{question}}"),
        reads=("question",),
        model="small",
        splits=draw(st.sampled_from(_SPLITS)),
    )


def _step(draw: st.DrawFn, name: str, over: str, indexes: list[str]) -> StepSpec:
    kinds = ["tool", "map", "tool", "map", "search", "ingest", "search", "rerank", "rerank", "fold", "embed"]
    match draw(st.sampled_from([*kinds, *(["search"] * 4 if indexes else [])])):
        case "map":
            reads = draw(st.sampled_from([(), ("question",)]))
            text = "".join(f" {{{{{each}}}}}" for each in ("item", *reads))
            return StepSpec(name, "map", (over,), chat_messages(f"{name}{text}"), reads=reads, model="small")
        case "tool":
            effects = draw(st.integers(0, 2)) < 2
            component = NOTIFY if effects else TOOL
            args = {"about": "{{item}}", "of": name}
            return StepSpec(name, "map", (over,), component=component, args=args, effects=effects)
        case "search" if indexes:
            index = draw(st.sampled_from(indexes))
            return StepSpec(
                name, "search", (over,), reads=(index,), component=EMBEDDER, index=f"step:{index}", k=2
            )
        case "search":
            return StepSpec(name, "search", (over,), index=f"component:{WEB}", component=WEB, k=3)
        case "rerank":
            return StepSpec(
                name,
                "rerank",
                (over,),
                reads=("question",),
                component=RERANKER,
                by="question",
                k=draw(st.integers(1, 4)),
            )
        case "fold":
            messages = chat_messages("{{so_far}} {{item}}")
            return StepSpec(name, "fold", (over,), messages, model="small", initial="none")
        case kind:
            return StepSpec(name, "ingest" if kind == "ingest" else "embed", (over,), component=EMBEDDER)


@st.composite
def flowing_inputs(draw: st.DrawFn) -> Mapping[str, Value]:
    """Values of the inputs; of documents there may be more than a step takes."""
    count = draw(st.sampled_from([0, 1, 2, 3, 4, 4, 4, 13]))
    return {"question": draw(st.text("ab ", max_size=4)), "documents": [f"d{n}" for n in range(count)]}
