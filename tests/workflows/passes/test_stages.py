"""How long the pieces of a list are, and which primitives are cut."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.definitions import definition, doc_qa
from workflows.definition import StepSpec
from workflows.passes.seen import Seen
from workflows.passes.stages import stages
from workflows.plan import MOST_PIECES, Profile, piece_items
from workflows.primitives import build


@given(st.integers(1, 64), st.integers(1, 5000))
def test_a_list_has_pieces_of_a_batch_and_never_too_many(batch: int, count: int) -> None:
    items = piece_items(batch, count)
    assert items >= batch
    assert -(-count // items) <= MOST_PIECES
    assert items == batch or -(-count // batch) > MOST_PIECES


def _cut(profile: Profile, **counts: int) -> dict[str, int]:
    made = doc_qa()
    changed = stages(build(made), Seen(made, profile, counts))
    if changed is None:
        return {}
    return {node.id: node.stage for node in changed.graph.nodes.values() if node.stage is not None}


def test_the_first_batchable_primitive_is_cut_and_the_next_ones_follow() -> None:
    followed = {"index.embed": 16, "found.embed": 16, "top.rerank": 8}
    assert _cut(Profile({"local": 16, "reranker": 8})) == followed
    assert _cut(Profile({"reranker": 8})) == {"top.rerank": 8}
    assert _cut(Profile()) == {}
    assert _cut(Profile({"local": 16}), chunks=16, queries=3) == {}
    assert _cut(Profile({"local": 16}), chunks=17, queries=3) == {"index.embed": 16}


def test_the_pieces_of_a_list_are_joined_for_whoever_reads_the_whole() -> None:
    made = definition(
        StepSpec("found", "search", ("documents",), index="component:w", component="w", k=2),
        StepSpec("again", "search", ("found",), index="component:w", component="w", k=2),
        StepSpec("all", "merge", ("found", "again"), how="concat"),
    )
    changed = stages(build(made), Seen(made, Profile({"w": 2}), {}))
    assert changed is not None
    edges = {(edge.before, edge.after): edge.kind for edge in changed.graph.edges}
    assert edges == {
        ("found.search", "found"): "data",
        ("found", "again.search"): "data",
        ("found", "again"): "data",
        ("again.search", "again"): "data",
        ("found", "all.aggregate"): "data",
        ("again", "all.aggregate"): "data",
    }
    assert changed.graph.nodes["again.search"].stage == 2, "hits are joined before they are asked about"


def test_nothing_changes_twice() -> None:
    made = doc_qa()
    seen = Seen(made, Profile({"local": 16}), {})
    changed = stages(build(made), seen)
    assert changed is not None
    assert stages(changed.graph, seen) is None
    assert stages(changed.graph, replace(seen, profile=Profile({"local": 2}))) is None
