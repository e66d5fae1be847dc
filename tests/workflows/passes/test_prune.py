"""What orders nothing goes."""

from tests.workflows.definitions import definition, doc_qa
from workflows.definition import StepSpec
from workflows.passes.prune import prune
from workflows.passes.seen import Seen
from workflows.plan import Profile
from workflows.primitives import build


def test_indexing_goes_apart_from_expansion() -> None:
    made = doc_qa(chained=True)
    graph = build(made)
    changed = prune(graph, Seen(made, Profile(), {}))
    assert changed is not None
    dropped = [(edge.before, edge.after) for edge in graph.edges if edge not in changed.graph.edges]
    assert dropped == [("index.ingest", "queries.prefill"), ("index.ingest", "found.embed")]
    assert [note.edge for note in changed.notes] == dropped
    assert prune(changed.graph, Seen(made, Profile(), {})) is None


def test_what_is_asked_for_or_changes_something_stays() -> None:
    made = definition(
        StepSpec("tell", "tool", component="t", effects=True),
        StepSpec("see", "tool", component="t", after=("tell",)),
        chained=True,
    )
    graph = build(made)
    assert prune(graph, Seen(made, Profile(), {})) is None
    assert {edge.kind for edge in graph.edges} == {"after", "effect"}
