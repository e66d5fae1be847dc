"""Items of a chat are handed on while it goes on."""

from tests.workflows.definitions import chat_messages, definition, doc_qa
from workflows.definition import Splits, StepSpec
from workflows.passes.decoding import decoding
from workflows.passes.flowing import gathered
from workflows.passes.seen import Seen
from workflows.plan import Profile
from workflows.primitives import build


def test_each_query_is_decoded_embedded_looked_for_and_scored_on_its_own() -> None:
    made = doc_qa()
    changed = decoding(build(made), Seen(made, Profile(), {}))
    assert changed is not None
    assert [node.id for node in changed.graph.nodes.values() if node.early] == [
        "found.embed",
        "found.search",
        "top.rerank",
    ]
    items = [(edge.before, edge.after) for edge in changed.graph.edges if edge.kind == "items"]
    assert items == [
        ("queries.decode", "found.embed"),
        ("found.embed", "found.search"),
        ("found.search", "top.rerank"),
    ]
    assert [note.by for note in changed.notes] == ["decoding", "decoding"]
    assert decoding(changed.graph, Seen(made, Profile(), {})) is None


def test_a_list_that_is_read_as_a_whole_is_not_handed_on() -> None:
    splitting = StepSpec("a", "chat", messages=chat_messages("Go"), model="m", splits=Splits("json"))
    whole = StepSpec("b", "chat", messages=chat_messages("{{a}}"), reads=("a",), model="m")
    fold = StepSpec("c", "fold", ("a",), chat_messages("{{item}}"), model="m")
    told = StepSpec("d", "map", ("a",), component="notify", effects=True)
    made = definition(splitting, whole, fold, told)
    assert decoding(build(made), Seen(made, Profile(), {})) is None


def test_who_joins_pieces_already_is_left_alone() -> None:
    graph = build(definition(StepSpec("m", "map", ("documents",), chat_messages("{{item}}"), model="m")))
    assert gathered(graph, "m") is graph
