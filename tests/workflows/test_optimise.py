"""The plans that come of a definition: what each pass allows, and what none of them may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.definitions import chat_messages, definition, definitions, doc_qa
from workflows import optimise as module
from workflows.definition import PASSES, Definition, Splits, StepSpec
from workflows.optimise import optimise
from workflows.passes.seen import Seen
from workflows.plan import NO_PLAN, Profile, StepPlan, dumped, loaded

CERTAIN = Profile({"local": 4, "reranker": 8})
passes = st.sets(st.sampled_from(PASSES))


def _plans(made: Definition, *applied: str, profile: Profile = CERTAIN) -> Mapping[str, StepPlan]:
    return optimise(made, profile, frozenset(applied)).plans


def test_without_passes_each_step_waits_for_all_it_refers_to() -> None:
    plans = _plans(doc_qa())
    assert plans["found"].order == ("index",)
    assert plans["index"].stage is None and not plans["top"].follows and not plans["found"].early_items


def test_all_passes_on_advanced_rag() -> None:
    plans = _plans(doc_qa(), *PASSES)
    assert all(plan.order == () for plan in plans.values())
    assert plans["index"].stage == 4
    assert plans["found"].early_items and not plans["found"].follows and plans["found"].stage is None
    assert plans["top"].follows and not plans["top"].early_items


@pytest.mark.parametrize("name", PASSES)
def test_each_pass_changes_its_own_and_nothing_else(name: str) -> None:
    without, plans = _plans(doc_qa()), _plans(doc_qa(), name)
    changed = {
        field
        for step in plans
        for field in ("order", "after", "early_items", "stage", "follows")
        if getattr(plans[step], field) != getattr(without[step], field)
    }
    assert (
        changed
        == {
            "prune": {"order"},
            "stages": {"stage", "follows"},
            "decoding": {"early_items", "follows"},
        }[name]
    )


def test_deeper_is_farther_from_the_end_and_a_fold_has_turns() -> None:
    plans = _plans(doc_qa(), "prune")
    assert plans["answer"].depths == {"prefill": 1, "decode": 0}
    assert plans["answer"].depth == 5, "three turns of two"
    assert plans["top"].depth == 6
    assert plans["chunks"].depth > plans["index"].depth > plans["found"].depths["search"]


@pytest.mark.slow
@given(definitions(), passes)
def test_what_a_run_may_do_is_the_same_with_any_passes(made: Definition, applied: set[str]) -> None:
    without, plans = _plans(made), _plans(made, *applied)
    for name, step in made.steps.items():
        plan = plans[name]
        assert plan.after == without[name].after
        assert set(plan.order) <= set(without[name].order)
        if step.tool and step.effects:
            assert not plan.early_items and not plan.follows
        if plan.early_items:
            assert made.steps[step.over[0]].splits is not None and "decoding" in applied
        if plan.follows:
            source = made.steps[step.over[0]]
            assert source.kind in ("map", "search", "embed"), "whose pieces are values of their own"
            assert source.kind != "search" or step.kind == "rerank", "hits are joined first, but for scores"


@given(definitions(), st.permutations(PASSES))
def test_the_order_of_passes_makes_no_difference(made: Definition, order: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PASSES", tuple(order))
        found = module.optimised(Seen(made, CERTAIN, {}), frozenset(order)).plans
    assert found == module.optimised(Seen(made, CERTAIN, {}), frozenset(order)).plans


@pytest.mark.slow
@given(definitions(), passes)
def test_nothing_waits_for_itself_and_nothing_is_left_to_change(made: Definition, applied: set[str]) -> None:
    egraph = optimise(made, CERTAIN, applied)
    assert len(egraph.graph.order()) == len(egraph.graph.nodes)
    for name in applied:
        assert module._BY_NAME[name](egraph.graph, Seen(made, CERTAIN, {})) is None  # type: ignore[index]


@given(definitions(), passes)
def test_every_dependency_is_kept_but_for_order(made: Definition, applied: set[str]) -> None:
    """What a primitive needed before the passes is still before it after them; of a list it may be pieces."""
    egraph = optimise(made, CERTAIN, applied)
    taken = {(edge.before, edge.after) for edge in egraph.graph.edges if edge.kind == "items"}
    above: dict[str, set[str]] = {}
    for node in egraph.graph.order():
        before = {edge.before for edge in egraph.graph.into[node]}
        above[node] = before.union(*(above[each] for each in before))
    for edge in egraph.pgraph.edges:
        if edge.kind != "order" and edge.before not in above[edge.after]:
            join = egraph.graph.into[edge.before]
            assert any((piece.before, edge.after) in taken for piece in join)


def test_results_are_kept_by_what_they_depend_on() -> None:
    made = doc_qa()
    first = optimise(made, CERTAIN)
    assert optimise(made, replace(CERTAIN, effective_batch={"local": 4, "reranker": 8, "other": 2})) is first
    assert optimise(made, replace(CERTAIN, effective_batch={"local": 5})) is not first
    assert optimise(made, CERTAIN, {"prune"}) is not first
    assert optimise(made, CERTAIN, counts={"documents": 2}) is not first


def test_a_list_known_to_fit_one_batch_is_not_cut() -> None:
    made = definition(StepSpec("index", "ingest", ("documents",), component="local"))
    assert optimise(made, CERTAIN, counts={"documents": 4}).plans["index"].stage is None
    assert optimise(made, CERTAIN, counts={"documents": 5}).plans["index"].stage == 4


def test_a_chat_per_chunk_hands_its_pieces_to_the_embedder() -> None:
    made = definition(
        StepSpec("chunks", "split", ("documents",), component="local", tokens=8),
        StepSpec(
            "told",
            "map",
            ("chunks",),
            chat_messages("Of {{documents}}: {{item}}"),
            reads=("documents",),
            model="m",
        ),
        StepSpec("index", "ingest", ("told",), component="local"),
        output="told",
    )
    assert _plans(made, "stages")["index"].follows
    assert _plans(made, "stages")["index"].stage == 4, "chats are embedded four at a time"
    assert not _plans(made, "stages", profile=Profile())["index"].follows, "nothing is known of the embedder"
    assert not _plans(made, "decoding", "prune")["index"].follows


def test_items_of_a_chat_flow_to_whoever_goes_over_them() -> None:
    splitting = StepSpec(
        "queries",
        "chat",
        messages=chat_messages("{{question}}"),
        reads=("question",),
        model="m",
        splits=Splits("lines"),
    )
    told = StepSpec("told", "map", ("queries",), component="notify", effects=True, args={"a": "{{item}}"})
    asked = StepSpec("asked", "map", ("queries",), component="lookup", args={"a": "{{item}}"})
    index = StepSpec("index", "ingest", ("asked",), component="local")
    whole = StepSpec("whole", "chat", messages=chat_messages("{{queries}}"), reads=("queries",), model="m")
    plans = _plans(definition(splitting, told, asked, index, whole), *PASSES)
    assert [name for name, plan in plans.items() if plan.early_items] == ["asked"]
    assert [name for name, plan in plans.items() if plan.follows] == ["index"]


def test_a_note_says_which_pass_and_what() -> None:
    notes = optimise(doc_qa(), CERTAIN).notes
    assert [(note.by, note.what) for note in notes] == [
        ("prune", "found.embed no longer waits for index: it reads nothing of it"),
        ("stages", "index.embed goes in pieces of 4, the effective batch of local"),
        ("stages", "top.rerank takes each piece of found as it is there"),
        ("decoding", "queries hands each item on to found.embed while it is being written"),
    ]


@given(definitions(), passes)
def test_plans_are_read_back_as_they_were(made: Definition, applied: set[str]) -> None:
    plans = _plans(made, *applied)
    assert loaded(dumped(plans)) == plans
    assert dumped({"s": NO_PLAN}) == {"s": {}}
