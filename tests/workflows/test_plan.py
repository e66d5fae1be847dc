"""The plans that come of a definition: what each pass allows, and what none of them may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.definitions import chat_messages, definition, definitions, doc_qa
from workflows.definition import PASSES, Definition, OnError, Splits, StepSpec
from workflows.plan import MOST_PIECES, NO_PLAN, Profile, StepPlan, dumped, loaded, piece_items, planned

CERTAIN = Profile({"local": 4, "reranker": 8})
passes = st.sets(st.sampled_from(PASSES))


def _plans(made: Definition, *applied: str, profile: Profile = CERTAIN) -> Mapping[str, StepPlan]:
    return planned(made, profile, frozenset(applied)).plans


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
    assert (plans["answer"].depths, plans["answer"].depth) == ({"chat": 0}, 2), "three turns"
    assert plans["top"].depth == 3
    assert plans["chunks"].depth > plans["index"].depth > plans["found"].depths["search"]


@pytest.mark.parametrize(
    ("batches", "counts", "cut"),
    [
        ({"local": 16, "reranker": 8}, {}, {"index": 16, "found": 16, "top": 8}),
        ({"reranker": 8}, {}, {"top": 8}),
        ({}, {}, {}),
        ({"local": 16}, {"chunks": 16, "queries": 3}, {}),
        ({"local": 16}, {"chunks": 17, "queries": 3}, {"index": 16}),
    ],
)
def test_a_list_longer_than_a_batch_is_cut(
    batches: dict[str, int], counts: dict[str, int], cut: dict[str, int]
) -> None:
    plans = planned(doc_qa(), Profile(batches), {"stages"}, counts).plans
    assert {name: plan.stage for name, plan in plans.items() if plan.stage is not None} == cut


@given(st.integers(1, 64), st.integers(1, 5000))
def test_a_list_has_pieces_of_a_batch_and_never_too_many(batch: int, count: int) -> None:
    items = piece_items(batch, count)
    assert items >= batch
    assert -(-count // items) <= MOST_PIECES
    assert items == batch or -(-count // batch) > MOST_PIECES


def _chat(name: str, *reads: str, **more: Any) -> StepSpec:
    text = " ".join(f"{{{{{each}}}}}" for each in reads)
    return StepSpec(name, "chat", messages=chat_messages(text), reads=reads, model="m", **more)


def test_a_chain_waits_for_the_step_before_and_for_nothing_that_data_orders_already() -> None:
    steps = _chat("a", "question"), _chat("b", "a"), _chat("c", "a")
    orders = {name: plan.order for name, plan in _plans(definition(*steps, chained=True)).items()}
    assert orders == {"a": (), "b": (), "c": ("b",)}
    assert all(plan.order == () for plan in _plans(definition(*steps)).values())


@pytest.mark.parametrize("applied", [(), PASSES])
def test_a_tool_that_changes_something_stands_in_its_place_of_a_chain(applied: tuple[str, ...]) -> None:
    tell = StepSpec("tell", "tool", component="notify", effects=True)
    steps = _chat("a", "question"), _chat("b", "question"), tell, _chat("c", "question", after=("a",))
    after = {name: plan.after for name, plan in _plans(definition(*steps, chained=True), *applied).items()}
    assert after == {"a": (), "b": (), "tell": ("a", "b"), "c": ("a", "tell")}
    assert _plans(definition(*steps), *applied)["tell"].after == ()


@pytest.mark.parametrize(
    ("on_error", "more", "early", "said"),
    [
        (None, {}, True, "l hands each item on to told while it is being written"),
        (
            OnError(retry=1),
            {},
            False,
            "told waits for all of l: with on_error that may be asked for again",
        ),
        (None, {"effects": True}, False, "told waits for all of l: it changes something"),
        (None, {"kind": "fold"}, False, "told waits for all of l: each turn reads the one before"),
    ],
)
def test_items_are_handed_on_or_the_plan_says_why_not(
    on_error: OnError | None, more: dict[str, Any], early: bool, said: str
) -> None:
    splitting = _chat("l", "question", splits=Splits("lines"), on_error=on_error)
    messages = () if "effects" in more else chat_messages("{{item}}")
    told = replace(StepSpec("told", "map", ("l",), messages, model="m"), **more)
    found = planned(definition(splitting, told), CERTAIN)
    assert found.plans["told"].early_items is early
    assert [note.what for note in found.notes] == [said]


def test_a_list_known_to_fit_one_batch_is_not_cut() -> None:
    made = definition(StepSpec("index", "ingest", ("documents",), component="local"))
    assert planned(made, CERTAIN, counts={"documents": 4}).plans["index"].stage is None
    assert planned(made, CERTAIN, counts={"documents": 5}).plans["index"].stage == 4


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
    notes = planned(doc_qa(), CERTAIN).notes
    assert [(note.by, note.what) for note in notes] == [
        ("prune", "found.embed no longer waits for index: it reads nothing of it"),
        ("stages", "index.embed goes in pieces of 4, the effective batch of local"),
        ("decoding", "queries hands each item on to found.embed while it is being written"),
        ("decoding", "top.rerank takes each piece of found as it is there"),
    ]


@given(definitions(), passes)
def test_plans_are_read_back_as_they_were(made: Definition, applied: set[str]) -> None:
    plans = _plans(made, *applied)
    assert loaded(dumped(plans)) == plans
    assert dumped({"s": NO_PLAN}) == {"s": {}}
