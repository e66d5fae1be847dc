"""Graphs drawn out: Figure 6 of Teola for its Figure 2(d)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.definitions import chat_messages, definition, definitions, doc_qa
from workflows.counts import guessed
from workflows.definition import PASSES, Definition, StepSpec
from workflows.drawing import Drawing, draw, unfolded
from workflows.plan import Profile, planned

PROFILE = Profile({"local": 16, "reranker": 8})
COUNTS = {"chunks": 48, "queries": 3, "top": 3}


def _figure_6(chained: bool) -> Drawing:
    made = doc_qa(chained=chained)
    return draw(made, planned(made, PROFILE).plans, COUNTS)


def _above(drawing: Drawing, node: str) -> set[str]:
    before: dict[str, set[str]] = {}
    for edge in drawing.edges:
        before.setdefault(edge.after, set()).add(edge.before)
    found, left = set(), [node]
    while left:
        new = before.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


@pytest.mark.parametrize("chained", [False, True])
def test_indexing_goes_in_pieces_apart_from_expansion(chained: bool) -> None:
    drawing = _figure_6(chained)
    embedded = [node for node in drawing.nodes if node.node == "index.embed"]
    assert [node.items for node in embedded] == [16, 16, 16]
    assert _above(drawing, "index") == {"chunks"} | {
        f"index.{primitive}[{piece}]" for primitive in ("embed", "ingest") for piece in range(3)
    }
    assert _above(drawing, "queries") == set()


@pytest.mark.parametrize("chained", [False, True])
def test_each_item_feeds_its_own_embedding_search_and_reranking(chained: bool) -> None:
    drawing = _figure_6(chained)
    edges = {(edge.before, edge.after) for edge in drawing.edges}
    for query in range(3):
        assert ("queries", f"found.embed[{query}]") in edges
        assert (f"found.embed[{query}]", f"found.search[{query}]") in edges
        assert ("index", f"found.search[{query}]") in edges
        assert (f"found.search[{query}]", f"top.rerank[{query}]") in edges
        assert (f"top.rerank[{query}]", "top") in edges
        others = {f"found.search[{other}]" for other in range(3) if other != query}
        assert not others & _above(drawing, f"top.rerank[{query}]")
    assert {edge.kind for edge in drawing.edges if edge.before == "queries"} == {"items"}


def test_without_passes_modules_follow_one_another() -> None:
    made = doc_qa(chained=True)
    drawing = draw(made, planned(made, PROFILE, frozenset()).plans, COUNTS)
    assert [len([each for each in drawing.nodes if each.layer == node.layer]) for node in drawing.nodes] == [
        1
    ] * len(drawing.nodes), "one after the other"
    assert {edge.kind for edge in drawing.edges} == {"data", "order"}


def test_of_many_pieces_the_first_ones_and_the_last_are_drawn() -> None:
    made = doc_qa()
    drawing = draw(made, planned(made, PROFILE).plans, {**COUNTS, "chunks": 1000}, most=4)
    embedded = [node for node in drawing.nodes if node.node == "index.embed"]
    assert [(node.index, node.items) for node in embedded] == [(0, 32), (1, 32), (2, 32), (31, 8)]
    assert embedded[-1].label == "Embedding 993-1000"


def test_pieces_of_a_map_are_batches_of_its_items() -> None:
    made = definition(
        StepSpec("told", "map", ("documents",), chat_messages("{{item}}"), model="m"),
        StepSpec("index", "ingest", ("told",), component="local"),
        output="told",
    )
    profile = Profile({"local": 2})
    drawing = draw(made, planned(made, profile).plans, {"documents": 5, "told": 5})
    edges = {(edge.before, edge.after) for edge in drawing.edges}
    fed = [{f"told[{item}]" for item in items} for items in ((0, 1), (2, 3), (4,))]
    for piece, decodings in enumerate(fed):
        assert {before for before, after in edges if after == f"index.embed[{piece}]"} == decodings


@given(definitions(), st.sets(st.sampled_from(PASSES)), st.integers(0, 40))
def test_a_drawing_holds_every_node_and_no_edge_that_others_imply(
    made: Definition, passes: set[str], count: int
) -> None:
    plans, counts = planned(made, PROFILE, passes).plans, dict.fromkeys(made.steps, count)
    drawing = draw(made, plans, counts)
    layers = {node.id: node.layer for node in drawing.nodes}
    assert len(layers) == len(drawing.nodes)
    assert set(layers) <= set(unfolded(made, plans, guessed(made, counts)).steps)
    assert {node.step for node in drawing.nodes} == set(made.steps)
    for edge in drawing.edges:
        assert layers[edge.before] < layers[edge.after]
        others = {other.before for other in drawing.edges if other.after == edge.after} - {edge.before}
        assert not any(edge.before in _above(drawing, other) for other in others)
