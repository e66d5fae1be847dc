"""What is guessed of lists before a run."""

from hypothesis import given

from tests.workflows.definitions import definitions, doc_qa
from workflows.counts import MOST, guessed


def test_what_the_definition_says_and_what_is_known() -> None:
    found = guessed(doc_qa(), {"chunks": 48})
    assert {name: found[name] for name in ("question", "documents", "chunks", "queries", "found", "top")} == {
        "question": 1,
        "documents": 3,
        "chunks": 48,
        "queries": 3,
        "found": 48,
        "top": 3,
    }


@given(definitions())
def test_every_name_has_a_length(made) -> None:  # type: ignore[no-untyped-def]
    found = guessed(made)
    assert found.keys() == {*made.inputs, *made.steps}
    assert all(0 <= count <= MOST for count in found.values())
