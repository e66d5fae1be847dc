"""What steps need no engine for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.definitions import offsets
from workflows.compute import arguments, computed, cut, fused, scores, texts, vectors
from workflows.definition import Output
from workflows.graph import Step
from workflows.transform import Transform, TransformFailed
from workflows.values import Held, Opaque, Vectors


def step(primitive: str, what: Mapping[str, Any], *reads: str, of: str = "x") -> Step:
    return Step(
        of, of, {}, {}, {name: name for name in reads}, {of: of}, (Output(of),), primitive, what, of=of
    )


def value(made: Step, held: Mapping[str, Held]) -> Any:
    (found,) = computed(made, held, offsets, 1000).values()
    return found.message if isinstance(found, TransformFailed) else found


@given(st.lists(st.sampled_from(["a", "bb", "c,"]), max_size=20), st.integers(1, 6), st.integers(0, 5))
def test_pieces_of_a_text_overlap_and_leave_nothing_out(words: list[str], tokens: int, overlap: int) -> None:
    overlap = min(overlap, tokens - 1)
    text = " ".join(words)
    pieces = [piece.split() for piece in cut(text, offsets(text), tokens, overlap)]
    whole = pieces[0] if pieces else []
    for piece in pieces[1:]:
        assert piece[:overlap] == whole[len(whole) - overlap :] and len(piece) > overlap
        whole = whole + piece[overlap:]
    assert whole == words and all(len(piece) <= tokens for piece in pieces)


def test_texts_are_split_in_order() -> None:
    made = step("split", {"tokens": 2, "overlap": 1}, "d")
    assert value(made, {"d": ["a b c", "", "d"]}) == ["a b", "b c", "d"]
    assert value(made, {"d": "a b"}) == ["a b"]


@pytest.mark.parametrize(
    ("test", "text", "holds"),
    [
        (["equals", "yes"], "yes", "true"),
        (["equals", "yes"], "yes ", "false"),
        (["contains", "es"], "yes", "true"),
        (["matches", "^y.s$"], "yes", "true"),
        (["matches", "^e"], "yes", "false"),
        (["above", 0.5], " 0.51", "true"),
        (["above", 0.5], "0.5", "false"),
        (["above", 0.5], "nan", "false"),
        (["above", 0.5], "high", "the text is no number."),
        (["equals", "a\nb"], ["a", "b"], "true"),
    ],
)
def test_tests_of_a_text(test: list[Any], text: Held, holds: str) -> None:
    assert value(step("when", {"test": test}, "v"), {"v": text}) == holds


def test_lists_are_merged() -> None:
    concat = step("merge", {"how": "concat", "k": 0, "over": ["a", "b", "a"]}, "a", "b")
    assert value(concat, {"a": ["1", "2"], "b": "1"}) == ["1", "2", "1", "1", "2"]
    assert value(concat, {"b": "1"}) == ["1"]
    top = step("merge", {"how": "top", "k": 2, "over": ["a", "b"]}, "a", "b")
    assert value(top, {"a": ["1", "2", "3"], "b": ["3", "2"]}) == ["3", "2"]
    assert fused([["a", "a", "b"], ["b"]], 0) == ["b", "a"]
    assert fused([["a"], ["b"]], 1) == ["a"]


def test_the_first_that_was_not_skipped_is_taken() -> None:
    made = step("first_of", {}, "a", "b")
    assert value(made, {"b": ["1"]}) == ["1"] and value(made, {"a": "0", "b": "1"}) == "0"
    vectors_of = Opaque(Vectors(["t"], [[1.0]]))
    assert value(made, {"a": vectors_of}) is vectors_of


def test_a_transform_works_on_lists_too() -> None:
    made = Step(
        "x", "x", {}, {}, {"v": "v"}, {"x": "x"}, (Output("x", (Transform("join", "+"),)),), "transform"
    )
    assert value(made, {"v": ["a", "b"]}) == "a+b"
    assert value(made, {"v": "a"}) == "transform[0] (join): there is a text, not a list."


def test_pieces_are_gathered_in_order() -> None:
    hits = step("gather", {"how": "hits", "list": "q"}, "q", "x.search[0]", "x.search[1]")
    assert value(hits, {"q": "", "x.search[0]": ["b", "a"], "x.search[1]": ["a", "c"]}) == ["b", "a", "c"]
    listed = step("gather", {"how": "list", "list": "q"}, "q", "x[0]", "x[1]")
    assert value(listed, {"q": [], "x[0]": "b", "x[1]": ["c", "d"]}) == ["b", "c\nd"]
    last = step("gather", {"how": "last", "list": "q", "initial": "none"}, "q", "x[2]")
    assert value(last, {"q": [], "x[2]": "end"}) == "end"
    assert value(step("gather", last.what, "q"), {"q": []}) == "none"


def test_the_best_are_taken_by_score_then_by_place() -> None:
    by_place = step("gather", {"how": "top", "list": "q", "k": 3}, "q", "x.rerank[0]", "x.rerank[1]")
    scored = {"x.rerank[0]": scores([0.5, 0.9]), "x.rerank[1]": scores([0.9, 0.5])}
    assert value(by_place, {"q": ["a", "b", "c", "d"], **scored}) == ["b", "c", "a"]
    by_text = step("gather", by_place.what, "q", "x.rerank[0]", "q.search[0]", "x.rerank[1]", "q.search[1]")
    found = {"q.search[0]": ["a", "b"], "q.search[1]": ["b", "c"]}
    assert value(by_text, {"q": ["a", "b", "c"], **found, **scored}) == ["b", "a", "c"]


def test_a_value_that_is_too_long_fails() -> None:
    made = step("merge", {"how": "concat", "k": 0, "over": ["a"]}, "a")
    assert value(made, {"a": ["x" * 1001]}) == "The value has 1001 bytes; 1000 are allowed."


def test_scores_are_exact_and_finite() -> None:
    assert [float(each) for each in scores([0.1, 1 / 3])] == [0.1, 1 / 3]
    with pytest.raises(TransformFailed):
        scores([float("nan")])


def test_what_a_piece_works_on() -> None:
    made = step("embed", {"texts": ["a", "b"], "slice": [1, 3]}, "a", "b")
    assert texts(made, {"a": ["1", "2"], "b": "3"}) == ["2", "3"]
    found = Vectors(["t"], [[1.0]])
    assert vectors(step("search", {"vectors": "v"}, "v"), {"v": Opaque(found)}) is found


def test_arguments_of_a_tool_are_filled_once() -> None:
    args = {"q": "{{item}}!", "all": "{{list}}", "n": 3, "deep": [{"x": "{{{{{{list}}"}], "no": None}
    made = step("tool", {"args": args}, "list")
    assert arguments(made, {"item": "{{list}}", "list": ["a", "b"]}) == {
        "q": "{{list}}!",
        "all": ["a", "b"],
        "n": 3,
        "deep": [{"x": "{{a\nb"}],
        "no": None,
    }
