"""What a run grows by as its lists become known."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from tests.workflows.definitions import (
    EMBEDDER,
    RERANKER,
    chat_messages,
    definition,
    doc_qa,
    offsets,
)
from workflows.compute import computed
from workflows.definition import Definition, Splits, StepSpec
from workflows.graph import Graph
from workflows.plan import MOST_PIECES, Profile, StepPlan, planned
from workflows.progress import Progress, StepState, VariableState
from workflows.transform import TransformFailed, Value
from workflows.unfolding import Unfolding


class Run:
    """A run whose steps are answered by hand."""

    def __init__(
        self,
        definition: Definition,
        plans: Mapping[str, StepPlan] | None = None,
        documents: Value = (),  # type: ignore[assignment]
        max_items: int = 1000,
    ) -> None:
        plans = plans if plans is not None else planned(definition, Profile({EMBEDDER: 2, RERANKER: 2})).plans
        values: Mapping[str, Value] = {"question": "Q?", "documents": list(documents)}
        self.unfolding = Unfolding("run_1", definition, plans, values, max_items=max_items)
        self.progress = Progress(Graph())
        self.started: list[str] = self.progress.grow(self.unfolding.begin()).start

    def answered(self, step: str, value: Value | TransformFailed) -> list[str]:
        """The steps that start with an answer."""
        variable = self.unfolding.variable(step)
        changes = self.progress.answered(step, {variable: value})
        grown = self.unfolding.ready(variable, value) if not isinstance(value, TransformFailed) else None
        return [*changes.start, *(self.progress.grow(grown).start if grown else ())]

    def item(self, step: str, index: int, text: str) -> list[str]:
        return self.progress.grow(self.unfolding.item(step, index, text)).start

    def state(self, step: str) -> StepState:
        return self.progress.steps[step]

    def ids(self) -> list[str]:
        return list(self.progress.graph.steps)


def test_advanced_rag_unfolds_as_its_lists_become_known() -> None:
    run = Run(doc_qa(), documents=["d"])
    assert sorted(run.started) == ["chunks", "queries"]
    assert run.item("queries", 0, "one") == ["found.embed[0]"]
    assert run.answered("chunks", ["a", "b", "c"]) == ["index.embed[0]", "index.embed[1]"]
    assert run.item("queries", 1, "two") == ["found.embed[1]"]
    assert run.answered("queries", ["one", "two", "three"]) == ["found.embed[2]"]
    pieces = {
        f"{name}[{place}]" for name in ("found.embed", "found.search", "top.rerank") for place in range(3)
    }
    assert {id for id in run.ids() if run.progress.graph.steps[id].early == "queries"} == pieces
    top = run.progress.graph.steps["top"]
    assert not top.open and len(top.reads) == 2 + 3 + 3
    assert run.progress.graph.before("found.search[1]") == {"found.embed[1]", "index", "queries"}


def test_without_passes_each_step_waits_for_the_whole_of_the_one_before() -> None:
    definition = doc_qa()
    run = Run(definition, planned(definition, Profile({EMBEDDER: 2}), frozenset()).plans, ["d"])
    assert run.item("queries", 0, "one") == []
    assert run.answered("chunks", ["a", "b", "c"]) == ["index.embed[0]"]
    assert run.answered("queries", ["one", "two"]) == []
    assert [id for id in run.ids() if id.startswith("found")] == [
        "found",
        "found.embed[0]",
        "found.search[0]",
    ]
    # It embeds queries, and the index is read after that: but a step begins when all it refers to has ended.
    assert run.unfolding.variable("index") in run.progress.graph.steps["found.embed[0]"].waits


def test_ids_of_variables_follow_from_the_run_and_the_name() -> None:
    one, same = (Unfolding("run_1", doc_qa(), {}, {}) for _ in range(2))
    other = Unfolding("run_2", doc_qa(), {}, {})
    assert one.output == same.variable("answer") != other.output != other.variable("top")
    assert one.output.startswith("var_") and len(one.output) == 36


def test_a_long_list_is_cut_into_so_many_pieces_at_most() -> None:
    run = Run(doc_qa(), documents=["d"])
    run.answered("chunks", [f"c{number}" for number in range(5000)])
    pieces = [id for id in run.ids() if id.startswith("index.embed[")]
    assert len(pieces) == MOST_PIECES
    slices = [run.progress.graph.steps[id].what["slice"] for id in pieces]
    assert slices[0] == [0, 157] and slices[-1][1] == 5000
    assert all(before[1] == after[0] for before, after in pairwise(slices))
    starts = [run.progress.graph.steps[f"index.ingest[{n}]"].what["start"] for n in range(MOST_PIECES)]
    assert starts == [start for start, _ in slices]


def _listing(*more: StepSpec) -> Definition:
    messages = chat_messages("List {{question}}")
    source = StepSpec("l", "chat", messages=messages, reads=("question",), model="m", splits=Splits("json"))
    return definition(source, *more)


def _map(name: str, over: str, **more: Any) -> StepSpec:
    return StepSpec(name, "map", (over,), chat_messages(f"{name} {{{{item}}}}"), model="m", **more)


def test_what_a_failed_list_has_started_is_cancelled_and_dropped() -> None:
    run = Run(_listing(_map("a", "l"), _map("b", "a"), StepSpec("c", "chat", messages=chat_messages("c"))))
    run.progress.running("l")
    assert run.item("l", 0, "x") == ["a[0]"] and run.item("l", 1, "y") == ["a[1]"]
    run.progress.running("a[0]")
    assert run.answered("a[1]", "Y") == ["b[1]"]
    failed = run.progress.refused("l", "step_failed", "It broke off.")
    assert set(failed.dropped) == {"a[0]", "a[1]", "b[0]", "b[1]"} and set(failed.stop) == {"a[0]", "b[1]"}
    assert run.unfolding.variable("a[1]") not in run.progress.values
    assert not run.progress.answered("a[0]", {run.unfolding.variable("a[0]"): "X"})
    for name, chain in (("l", ("l",)), ("a", ("a", "l")), ("b", ("b", "a", "l"))):
        assert run.progress.failures[run.unfolding.variable(name)].chain == chain
    assert run.state("c") is StepState.QUEUED
    invalid = Run(_listing(_map("a", "l")))
    invalid.item("l", 0, "x")
    failed = invalid.progress.answered("l", {invalid.unfolding.variable("l"): TransformFailed("No list.")})
    assert failed.dropped == failed.stop == ["a[0]"]
    assert invalid.progress.failures[invalid.unfolding.output].code == "transform_failed"


def test_tools_with_effects_start_on_no_item_early() -> None:
    tell = StepSpec("t", "map", ("l",), component="notify", args={"x": "{{item}}"}, effects=True)
    run = Run(_listing(tell))
    assert run.item("l", 0, "x") == []
    assert run.answered("l", ["x", "y"]) == ["t[0]", "t[1]"]
    assert all(run.progress.graph.steps[id].effects for id in ("t[0]", "t[1]"))


def test_a_list_that_is_too_long_fails_its_step() -> None:
    run = Run(definition(_map("a", "documents"), _map("b", "a")), documents=["x", "y", "z"], max_items=2)
    assert run.ids() == ["a", "b"] and run.started == ["a"]
    outcome = computed(run.progress.graph.steps["a"], run.progress.held("a"), offsets, 1000)
    run.progress.answered("a", outcome)
    failure = run.progress.failures[run.unfolding.output]
    assert failure.message == "the list 'documents' has more than 2 items."
    assert failure.chain == ("b", "a")


def test_the_last_turn_of_a_fold_says_its_value() -> None:
    fold = StepSpec(
        "f", "fold", ("documents",), chat_messages("{{item}} {{so_far}}"), model="m", initial="none"
    )
    run = Run(definition(fold), documents=["x", "y"])
    steps = run.progress.graph.steps
    assert run.started == ["f[0]"] and run.progress.inputs("f[0]") == {"item": "x", "so_far": "none"}
    assert (steps["f[0]"].says, steps["f[1]"].says) == (None, run.unfolding.output)
    assert run.answered("f[0]", "X") == ["f[1]"]
    assert run.progress.inputs("f[1]") == {"item": "y", "so_far": "X"}
    assert run.answered("f[1]", "Y") == ["f"]
    assert Run(definition(fold)).started == ["f"]


def test_a_piece_that_fails_fails_its_step_once_it_is_known_that_nothing_else_did() -> None:
    search = StepSpec("s", "search", ("question",), reads=("i",), component=EMBEDDER, index="step:i", k=1)
    run = Run(
        definition(StepSpec("i", "ingest", ("documents",), component=EMBEDDER), search), documents=["d"]
    )
    assert run.progress.refused("s.embed[0]", "step_failed", "No.").variables.keys() == {
        run.unfolding.variable(name) for name in ("s.embed[0]", "s.search[0]")
    }
    assert run.state("s") is StepState.WAITING
    run.progress.refused("i.embed[0]", "step_failed", "No.")
    failure = run.progress.failures[run.unfolding.output]
    assert (failure.code, failure.chain) == ("step_failed", ("s", "i"))


def test_a_branch_that_is_not_taken_is_skipped() -> None:
    branch = [
        StepSpec("w", "when", ("question",), test=("contains", "?")),
        StepSpec("a", "chat", messages=chat_messages("a"), model="m", condition=("w", True)),
        StepSpec("b", "chat", messages=chat_messages("b"), model="m", condition=("w", False)),
        StepSpec("c", "chat", messages=chat_messages("{{b}}"), model="m", reads=("b",)),
    ]
    both = [
        StepSpec("j", "first_of", ("b", "a")),
        StepSpec("d", "chat", messages=chat_messages("d"), model="m", after=("b",)),
    ]
    run = Run(definition(*branch, *both, output="j"))
    assert run.started == ["w"]
    assert run.answered("w", "true") == ["a", "d"]
    assert {id for id in run.ids() if run.state(id) is StepState.SKIPPED} == {"b", "c"}
    assert run.progress.of(run.unfolding.variable("c")).state is VariableState.SKIPPED
    assert run.answered("a", "A") == ["j"]
    assert dict(run.progress.held("j")) == {"a": "A"}
