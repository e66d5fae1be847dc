"""A definition taken apart: which primitives it becomes, and what they wait for."""

import pytest
from hypothesis import given

from tests.workflows.definitions import chat_messages, definition, definitions, doc_qa
from workflows.definition import StepSpec
from workflows.primitives import Edge, build


def _edges(kind: str, *steps: StepSpec, chained: bool = False) -> set[tuple[str, str]]:
    graph = build(definition(*steps, chained=chained))
    return {(edge.before, edge.after) for edge in graph.edges if edge.kind == kind}


def _chat(name: str, *reads: str, **more: object) -> StepSpec:
    text = " ".join(f"{{{{{each}}}}}" for each in reads)
    return StepSpec(name, "chat", messages=chat_messages(text), reads=reads, model="m", **more)  # type: ignore[arg-type]


def _notify(name: str) -> StepSpec:
    return StepSpec(name, "tool", component="notify", effects=True)


def test_advanced_rag_becomes_the_primitives_of_the_paper() -> None:
    graph = build(doc_qa())
    assert [node.id for node in graph.nodes.values()] == [
        "chunks.split",
        "index.embed",
        "index.ingest",
        "queries.prefill",
        "queries.decode",
        "found.embed",
        "found.search",
        "top.rerank",
        "answer.prefill",
        "answer.decode",
    ]
    assert {(edge.before, edge.after, edge.kind) for edge in graph.edges} == {
        ("chunks.split", "index.embed", "data"),
        ("index.embed", "index.ingest", "data"),
        ("queries.prefill", "queries.decode", "data"),
        ("queries.decode", "found.embed", "data"),
        ("index.ingest", "found.embed", "order"),
        ("index.ingest", "found.search", "data"),
        ("found.embed", "found.search", "data"),
        ("found.search", "top.rerank", "data"),
        ("top.rerank", "answer.prefill", "data"),
        ("answer.prefill", "answer.decode", "data"),
    }


def test_a_chain_waits_for_the_step_before_and_for_nothing_that_data_orders_already() -> None:
    steps = _chat("a", "question"), _chat("b", "a"), _chat("c", "a")
    assert _edges("order", *steps, chained=True) == {("b.decode", "c.prefill")}
    assert _edges("order", *steps) == set()


def test_a_tool_that_changes_something_stands_alone_in_its_place_of_a_chain() -> None:
    steps = _chat("a", "question"), _chat("b", "question"), _notify("tell"), _chat("c", "question")
    assert _edges("effect", *steps, chained=True) == {
        ("a.decode", "tell.tool"),
        ("b.decode", "tell.tool"),
        ("tell.tool", "c.prefill"),
    }
    assert _edges("effect", *steps) == set()


def test_after_and_a_condition_hold_the_first_primitive() -> None:
    when = StepSpec("long", "when", ("question",), test=("contains", "a"))
    search = StepSpec(
        "found",
        "search",
        ("question",),
        index="collection:c",
        component="local",
        after=("a",),
        condition=("long", True),
    )
    assert _edges("after", _chat("a", "question"), when, search) == {("a.decode", "found.embed")}
    assert ("long.condition", "found.embed") in _edges("data", _chat("a", "question"), when, search)


def test_vectors_that_a_step_made_are_not_embedded_again() -> None:
    vectors = StepSpec("vectors", "embed", ("documents",), component="local")
    graph = build(definition(vectors, StepSpec("index", "ingest", ("vectors",), component="local")))
    assert [node.id for node in graph.of("index")] == ["index.ingest"]


def test_a_map_is_joined_and_a_web_search_embeds_nothing() -> None:
    mapped = StepSpec("m", "map", ("documents",), chat_messages("{{item}}"), model="m")
    web = StepSpec("web", "search", ("question",), index="component:w", component="w")
    graph = build(definition(mapped, web))
    assert [node.id for node in graph.nodes.values()] == ["m.prefill", "m.decode", "m", "web.search"]
    assert graph.tails == {"m": "m", "web": "web.search"}


@pytest.mark.slow
@given(definitions())
def test_every_step_has_a_head_and_a_tail_and_nothing_waits_for_itself(made) -> None:  # type: ignore[no-untyped-def]
    graph = build(made)
    assert list(graph.heads) == list(graph.tails) == list(made.steps)
    assert len(graph.order()) == len(graph.nodes)
    assert len(set(graph.edges)) == len(graph.edges)
    for name in made.steps:
        for each in made.before(name):
            into = [edge.before for node in graph.of(name) for edge in graph.into[node.id]]
            assert graph.tails[each] in into, "a reference is an edge"


def test_a_changed_graph_knows_its_edges_as_one_built_anew() -> None:
    graph = build(doc_qa())
    order = next(edge for edge in graph.edges if edge.kind == "order")
    more = Edge("chunks.split", "found.search", "after")
    changed = graph.changed(dropped={order}, added=(more, more, graph.edges[0]))
    assert changed.edges == (*(edge for edge in graph.edges if edge != order), more)
    for node in graph.nodes:
        assert list(changed.into[node]) == [edge for edge in changed.edges if edge.after == node]
        assert list(changed.out_of[node]) == [edge for edge in changed.edges if edge.before == node]
