"""What is equal without a judge, what is plainly not, and what only a judge can tell."""

from __future__ import annotations

import json
import string
import unicodedata
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from learning.outcomes.equal import same, settles

WORDS = st.lists(st.text(string.ascii_letters, min_size=1, max_size=8), min_size=1, max_size=6).map(" ".join)
LABELS = st.lists(st.text(string.ascii_lowercase, min_size=1, max_size=8), min_size=2, max_size=4).map(
    "_".join
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=4)
PYTHON = "def f(x):\n    if x:\n        g()\n    return x + 1"


@given(st.text(max_size=200), st.text(max_size=200))
def test_equality_is_mutual_and_an_answer_is_equal_to_itself(one: str, other: str) -> None:
    assert same(one, one)
    assert same(one, other) == same(other, one)


@given(LABELS, st.sampled_from(['"{}"', "`{}`", "**{}**", "{}.", "Label: {}", "The intent is {}", " {}\n"]))
def test_a_label_is_equal_whatever_stands_around_it_and_however_it_is_written(
    label: str, around: str
) -> None:
    assert same(around.format(label.upper()), label)
    assert settles(label)


@given(LABELS, LABELS)
def test_two_labels_that_differ_are_not_equal(one: str, other: str) -> None:
    assert same(one, other) == (one == other)


@given(st.integers(-(10**12), 10**12), st.integers(0, 3))
def test_a_number_is_equal_by_value(number: int, zeros: int) -> None:
    written = f"{number:,}" + ("." + "0" * zeros if zeros else "")
    assert same(written, str(number)) and same(f"Answer: {written}.", str(number))
    assert not same(written, str(number + 1))
    assert settles(written)


@given(st.decimals(-1000, 1000, places=3), st.decimals(-1000, 1000, places=3))
def test_numbers_of_other_values_are_not_equal(one: Decimal, other: Decimal) -> None:
    assert same(f"{one:f}", f"{other:f}") == (one == other)


@given(OBJECTS)
@example({"\u0a59": "\u0a59"})
def test_json_is_equal_by_value_fenced_or_not(value: dict[str, Any]) -> None:
    shuffled = dict(reversed(value.items()))
    fenced = f"```json\n{json.dumps(shuffled, indent=2, ensure_ascii=False)}\n```"
    assert same(fenced, json.dumps(value))


@given(OBJECTS, OBJECTS)
def test_json_of_another_value_is_not_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    def value(of: dict[str, Any]) -> str:
        return unicodedata.normalize("NFC", json.dumps(of, sort_keys=True, ensure_ascii=False))

    assert same(json.dumps(one), json.dumps(other)) == (value(one) == value(other))


@given(WORDS)
def test_words_are_equal_but_for_case_spaces_and_the_mark_at_the_end(words: str) -> None:
    assert same(words.upper().replace(" ", "  ") + ".", words)


@pytest.mark.parametrize(
    ("ours", "reference"),
    [
        ("ls -l", "ls -L"),
        ("rm -rf a", "rm - rf a"),
        ("5 km", "5"),
        ("5 km", "5 m"),
        ("$5", "€5"),
        ('{"a": true}', '{"a": 1}'),
        ('{"a": 1}', "a is 1"),
        ("```\nx\n```\nand so on", "x"),
        ("...", "!!!"),
        ("no", "yes"),
        ("Paris", "The capital is Paris"),
        (f"```python\n{PYTHON}\n```", f"```python\n{PYTHON.replace('    return', 'return')}\n```"),
        ("```c\n#include <a.h>\n```", "```c\n#include <b.h>\n```"),
        ('```js\nlet a = "//x"\n```', '```js\nlet a = "//y"\n```'),
        ("```js\na + +b\n```", "```js\na ++ b\n```"),
        ("```python\nx\n```", "```sql\nx\n```"),
    ],
)
def test_what_differs_in_more_than_its_form_is_not_equal(ours: str, reference: str) -> None:
    assert not same(ours, reference)


@pytest.mark.parametrize(
    ("ours", "reference"),
    [
        ("ls  -l", "ls -l"),
        ("1,000.0", "1000"),
        ("5km", "5 km"),
        ("12 Apples", "12 apples"),
        ('{"a": 1.0, "b": [2]}', '```\n{"b":[2],"a":1}\n```'),
        (
            f"```python\n{PYTHON}\n```",
            "```python\n" + PYTHON.replace("x + 1", "x+1  # one more\n\n") + "\n```",
        ),
        ("```js\nif (a) { b(); } // go\n```", "```\nif (a)\n{\n  b();\n}\n```"),
        ("```sql\nSELECT a -- all\nFROM b\n```", "```sql\nSELECT a FROM b\n```"),
    ],
)
def test_what_differs_only_in_its_form_is_equal(ours: str, reference: str) -> None:
    assert same(ours, reference)


@pytest.mark.parametrize(
    "reference",
    [
        "Paris.",
        "The capital is Paris.",
        "I am sorry.",
        "12 apples",
        "x" * 9000,
        '{"a": "The capital is Paris."}',
        "```\nls -l\n```",
        "ls -l",
    ],
)
def test_an_answer_that_could_be_worded_otherwise_is_for_a_judge(reference: str) -> None:
    assert not settles(reference, ["Lyon", "Rome", "Oslo", "Bern", "Riga", "Kyiv", "Baku"])


def test_a_short_answer_is_a_label_where_similar_requests_have_few_answers_in_common() -> None:
    near = ["Yes", "no", "yes.", "No.", "no", "yes"]
    assert settles("Yes.", near) and settles("no", near)
    assert not settles("maybe", near), "never seen"
    assert not settles("yes", near[:5]), "too few to tell"
    assert not settles("That is so.", ["That is so."] * 9), "a sentence"
    assert not settles("yes", [*near, *["It depends on what you would like to know about this."] * 7])


def test_nothing_that_takes_long_is_tried_on_a_long_text() -> None:
    hostile = "a" + "'" * 1_000_000 + "%"
    assert not same(hostile, hostile[:-1]) and not settles(hostile)
    assert not same('"' + '\\"' * 3990, '"' + '\\"' * 3989 + "%")
