"""Transforms: what they make of an answer, what they refuse, and when they fail."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.errors import WorkflowError
from workflows.transform import (
    TransformFailed,
    Value,
    apply,
    as_text,
    bounded,
    effort,
    read_transforms,
)


def applied(transforms: list[Any], text: str) -> Value:
    return apply(read_transforms(transforms, "t"), text)


@pytest.mark.parametrize(
    ("transforms", "text", "value"),
    [
        ([], " as it came ", " as it came "),
        (["strip"], "  x \n", "x"),
        ([{"strip": True}], "  ", ""),
        ([{"regex": "```python\n([\\s\\S]*?)```"}], "Here:\n```python\nprint(1)\n```\nDone.", "print(1)\n"),
        ([{"regex": "[0-9]+"}], "é 42 and 43", "42"),
        ([{"regex": "a(b)(c)"}], "abc", "b"),
        ([{"json": ""}], '{"a": 1}', '{"a":1}'),
        ([{"json": "/a/1/b~1c~0"}], '{"a": [0, {"b/c~": "é"}]}', "é"),
        ([{"json": "/n"}], '{"n": 123456789012345678901234567890}', "123456789012345678901234567890"),
        ([{"json": "/x"}], '{"x": null}', "null"),
        ([{"json": "/"}], '{"": "empty key"}', "empty key"),
        ([{"json": "/files"}], '{"files": ["a.py", {"b": 2}, 3]}', ["a.py", '{"b":2}', "3"]),
        (["lines"], "one\r\n\n  two \n\u2028three", ["one", "  two ", "\u2028three"]),
        (["lines", "strip"], " one\n two ", ["one", "two"]),
        ([{"split": ", "}], "a, b, ", ["a", "b", ""]),
        ([{"split": ","}, {"join": "\n"}], "a,b", "a\nb"),
        (["lines", {"regex": "^\\d+\\. (.*)"}], "1. x\n2. y", ["x", "y"]),
        (["lines", {"json": "/v"}], '{"v": 1}\n{"v": [1, "é"]}', ["1", '["1","é"]']),
        ([{"json": "/l"}, {"join": "+"}], '{"l": [1, 2]}', "1+2"),
        ([{"truncate": 3}], "abcdef", "abc"),
        (["lines", {"truncate": 1}], "ab\ncd", ["a", "c"]),
    ],
)
def test_what_becomes_of_an_answer(transforms: list[Any], text: str, value: Value) -> None:
    assert applied(transforms, text) == value


@pytest.mark.parametrize(
    ("transforms", "text"),
    [
        ([{"regex": "x"}], "secret"),
        ([{"regex": "s(x)?"}], "secret"),
        ([{"json": "/a"}], "secret"),
        ([{"json": "/a"}], '{"b": "secret"}'),
        ([{"json": "/01"}], "[1, 2]"),
        ([{"json": "/-"}], "[1, 2]"),
        ([{"json": "/2"}], "[1, 2]"),
        ([{"json": "/99999999999999999999"}], "[1, 2]"),
        ([{"json": "/a/b"}], '{"a": "secret"}'),
        ([{"json": ""}], "NaN"),
        ([{"json": ""}], "[" * 100_000),
        ([{"json": "/a"}], '{"a": "\\ud800"}'),
        ([{"json": ""}], "1" * 5000),
        (["lines"], " \n\t\n"),
        (["lines", {"regex": "a"}], "a\nb"),
        ([{"json": "/a"}, {"join": ","}], '{"a": "secret"}'),
        ([{"json": "/a"}, "lines"], '{"a": ["secret"]}'),
    ],
)
def test_what_does_not_match_fails_and_does_not_show_the_answer(transforms: list[Any], text: str) -> None:
    with pytest.raises(TransformFailed) as caught:
        applied(transforms, text)
    assert caught.value.message.startswith("transform[") and "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("transforms", "param", "code"),
    [
        ("strip", "t", "invalid_workflow"),
        ([1], "t[0]", "invalid_workflow"),
        ([{"regex": "a", "strip": True}], "t[0]", "invalid_workflow"),
        (["strip", {"eval": "1"}], "t[1]", "unknown_transform"),
        ([{"regex": "("}], "t[0].regex", "invalid_regex"),
        ([{"regex": "(?=a)"}], "t[0].regex", "invalid_regex"),
        ([{"regex": "(a)\\1"}], "t[0].regex", "invalid_regex"),
        ([{"regex": "a{1,900}b{1,900}"}], "t[0].regex", "invalid_regex"),
        ([{"regex": "a" * 2001}], "t[0].regex", "invalid_regex"),
        (["regex"], "t[0].regex", "invalid_workflow"),
        ([{"regex": None}], "t[0].regex", "invalid_workflow"),
        ([{"json": "a"}], "t[0].json", "invalid_workflow"),
        ([{"json": "/~2"}], "t[0].json", "invalid_workflow"),
        ([{"split": ""}], "t[0].split", "invalid_workflow"),
        ([{"join": ","}], "t[0]", "invalid_workflow"),
        (["lines", {"join": 1}], "t[1].join", "invalid_workflow"),
        (["lines", "lines"], "t[1]", "invalid_workflow"),
        ([{"truncate": 0}], "t[0].truncate", "invalid_workflow"),
        ([{"truncate": True}], "t[0].truncate", "invalid_workflow"),
        ([{"strip": 1}], "t[0].strip", "invalid_workflow"),
        (["strip"] * 17, "t", "invalid_workflow"),
    ],
)
def test_bad_transforms_are_refused_with_their_place(transforms: Any, param: str, code: str) -> None:
    with pytest.raises(WorkflowError) as caught:
        read_transforms(transforms, "t")
    assert (caught.value.param, caught.value.code, caught.value.status) == (param, code, 400)


def test_a_value_has_a_largest_size() -> None:
    assert bounded(["é", "é"], 4) == ["é", "é"]
    with pytest.raises(TransformFailed, match="5 bytes; 4 are allowed"):
        bounded(["éé", "x"], 4)
    assert as_text(["a", "b"]) == "a\nb" and as_text("a") == "a"


def test_effort_grows_with_the_text_and_the_program() -> None:
    plain, short, long = (
        read_transforms(each, "t") for each in ([], [{"regex": "a"}], [{"regex": "[a-m].{100}[0-9]"}])
    )
    assert effort(plain, "x" * 100) == 100
    assert (
        effort(plain, "x" * 100)
        < effort(short, "x" * 100)
        < effort(long, "x" * 100)
        == effort(long, "x" * 50) * 2
    )


ANY = st.lists(
    st.one_of(
        st.sampled_from(["strip", "lines", {"split": ","}, {"join": ";"}, {"json": ""}, {"json": "/0"}]),
        st.builds(lambda n: {"truncate": n}, st.integers(1, 5)),
        st.builds(lambda p: {"regex": p}, st.text(alphabet="ab.*+?()[]|\\{}1", max_size=8)),
    ),
    max_size=5,
)


@given(ANY, st.one_of(st.text(max_size=40), st.text(alphabet='ab,\n[]"1', max_size=20)))
def test_any_transforms_of_any_answer_end_in_a_value_or_a_named_failure(
    transforms: list[Any], text: str
) -> None:
    try:
        value = applied(transforms, text)
    except (WorkflowError, TransformFailed):
        return
    assert isinstance(value, str) or all(isinstance(item, str) for item in value)
