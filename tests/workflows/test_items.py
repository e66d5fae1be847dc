"""What is told while a list is written is a beginning of the list that it becomes, however the answer is cut into pieces."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.definition import Splits
from workflows.items import Items, split
from workflows.transform import TransformFailed

JSON = Splits("json")
_TEXTS = st.text('[]{},":\\ \n1atrue\u00e9`', max_size=40)
_SPLITS = st.sampled_from([JSON, Splits("lines"), Splits("regex", "[a-z]+"), Splits("regex", "(1)a?")])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def told(
    splits: Splits, pieces: list[str], max_items: int | None = None
) -> tuple[list[str], list[str] | str]:
    """(the items that were told early, all of them or why there are none)."""
    items = Items(splits, max_items)
    early = [item for piece in pieces for item in items.feed(piece)]
    try:
        return early, items.close()
    except TransformFailed as failure:
        return early, failure.message


@given(_SPLITS, st.lists(_TEXTS, max_size=5), st.none() | st.integers(1, 3))
def test_pieces_make_no_difference(splits: Splits, pieces: list[str], max_items: int | None) -> None:
    early, whole = told(splits, pieces, max_items)
    at_once, same = told(splits, ["".join(pieces)], max_items)
    assert whole == same and early == at_once
    if isinstance(whole, list):
        assert whole[: len(early)] == early


@given(st.lists(_VALUES, max_size=5), st.sampled_from([None, 1]), st.booleans(), st.integers(1, 7))
def test_a_json_list_is_read_as_json_reads_it(
    values: list[object], indent: int | None, ascii_only: bool, size: int
) -> None:
    answer = f"Here you are:\n```json\n{json.dumps(values, indent=indent, ensure_ascii=ascii_only)}\n``` [1"
    pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
    early, whole = told(JSON, pieces)
    assert early == whole
    assert [
        each if isinstance(value, str) else json.loads(each)
        for each, value in zip(whole, values, strict=True)
    ] == values


def test_an_item_is_told_when_its_end_is_seen() -> None:
    items = Items(JSON)
    assert items.feed('Sure: ["a') == []
    assert items.feed('b", "c"') == ["ab"]
    assert items.feed(", {") == ["c"]
    assert items.feed('"d": [1]} ] and more') == ['{"d":[1]}']
    assert items.feed('"e"]') == [] and items.close() == ["ab", "c", '{"d":[1]}']
    lines = Items(Splits("lines"))
    assert lines.feed("- a\r\n\n- ") == ["- a"] and lines.feed("b") == [] and lines.close() == ["- a", "- b"]
    words = Items(Splits("regex", "[0-9]+[.] (.*)"))
    assert words.feed("1. a b\n2. c") == ["a b"] and words.close() == ["a b", "c"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("No list.", "the answer has no JSON list."),
        ('["a", "b', "the list breaks off."),
        ('["a",]', "the list is no JSON."),
        ('["a" "b"]', "the list is no JSON."),
        ("[a]", "the list is no JSON."),
        ("[1}", "the list is no JSON."),
        ("[,1]", "the list is no JSON."),
        ("[NaN]", "the list is no JSON."),
        (r'["\ud800"]', "the list is no JSON."),
        ("[" * 100_000, "the list is nested deeper than 100."),
        ("[1" + "[" * 100_000 + "]" * 100_000 + "]", "the list is nested deeper than 100."),
    ],
)
def test_what_is_no_list_fails_and_says_why(answer: str, why: str) -> None:
    with pytest.raises(TransformFailed, match=why.replace(".", "[.]")):
        split(JSON, answer)


def test_an_empty_json_list_is_one_and_no_lines_are_none() -> None:
    assert split(JSON, "[ ]") == []
    for splits in (Splits("lines"), Splits("regex", "x")):
        with pytest.raises(TransformFailed, match="the answer has no"):
            split(splits, " \n")


def test_a_list_that_is_too_long_fails_and_nothing_more_is_told() -> None:
    assert split(JSON, "[1, 2]", 2) == ["1", "2"]
    assert told(JSON, ["[1, 2,", " 3, 4]"], 2) == (["1", "2"], "the list has more than 2 items.")


def test_nothing_is_read_behind_the_item_that_is_too_much() -> None:
    for splits, answer in (
        (Splits("json"), "[" + "1," * 4 + " no JSON at all]"),
        (Splits("lines"), "a\n" * 4 + "\n" * 4),
    ):
        items = Items(splits, max_items=3)
        assert len(items.feed(answer)) == 3
        with pytest.raises(TransformFailed, match="more than 3 items"):
            items.close()


def test_lists_within_lists_are_read_to_a_depth_that_hangs_on_nothing() -> None:
    for depth in (100, 101, 5_000):
        answer = "[" * depth + "]" * depth
        if depth == 100:
            assert split(Splits("json"), answer) == [answer[1:-1]]
            continue
        with pytest.raises(TransformFailed, match="nested deeper than 100"):
            split(Splits("json"), answer)
