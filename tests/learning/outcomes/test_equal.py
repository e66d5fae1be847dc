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
        ("```\nx\n```\nbut not on macOS", "x"),
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


# One table per kind of answer: ours, the reference's, whether they mean the same. Their shapes are those of answers of
# Qwen2.5-Coder and GPT-4, and of recorded commands.
FIND = "find . -name '*.txt' -mtime -7"
COMMANDS = [
    (f"`{FIND}`", FIND, True),
    (f"```bash\n{FIND}\n```", FIND, True),
    (f"```sh\n{FIND}\n```", f"```bash\n{FIND}\n```", True),
    (f'"{FIND}"', FIND, True),
    (FIND.replace("'", '"'), FIND, True),
    (f"```bash\n{FIND}\n```\n\nThis command lists the text files of the last week.", FIND, True),
    (f"Here is the command:\n```bash\n{FIND}\n```\n`-mtime -7` is a week.", f"`{FIND}`", True),
    (f"The command is: `{FIND}`", FIND, True),
    ('echo "$HOME" | wc -c', "echo '$HOME' | wc -c", False),
    ('grep -c "a\\b" f', "grep -c 'a\\b' f", False),
    (FIND.replace("'*.txt'", "*.txt"), FIND, False),
    (FIND.replace("-7", "+7"), FIND, False),
    (FIND.replace("-name", "-iname"), FIND, False),
    ("find . -name 'A.txt'", "find . -name 'a.txt'", False),
    ("`ls -l` and `ls -a`", "`ls -l`", False),
    (f"```bash\n{FIND}\n```\nThis does not work with BusyBox.", FIND, False),
    (f"Never run this:\n```bash\n{FIND}\n```", FIND, False),
    (f"```bash\n{FIND}\n```\n```bash\nls\n```", FIND, False),
    (f"```bash\n{FIND}\n```\nIt lists files.", f"```bash\n{FIND}\n```\nIt deletes files.", False),
    (f"```bash\n{FIND}\n```\n\u042d\u0442\u043e \u043d\u0435 \u0442\u043e.", FIND, False),
    ('SELECT "a" FROM t', "SELECT 'a' FROM t", False),
]
LABELLED = [
    ("Card Arrival", "card_arrival", True),
    ("card-arrival.", "`card_arrival`", True),
    ("Intent: **card_arrival**", "card_arrival", True),
    ("“Positive”", "positive", True),
    ("```\npositive\n```", "Positive.", True),
    ("card_arrival", "card_arrival_fee", False),
    ("not positive", "positive", False),
    ("positive / negative", "positive", False),
    ("x-1", "x 1", False),
]
NUMBERS = [
    ("5 kilometres", "5 km", True),
    ("50 percent", "50%", True),
    ("50 per cent.", "50 %", True),
    ("5 dollars", "$5", True),
    ("5 €", "€5.00", True),
    ("-$5", "$-5", True),
    ("\u22125", "-5", True),
    ("1e3", "1,000", True),
    ("\\boxed{18}", "18", True),
    ("**18**", "The final answer is 18.", True),
    ("2 hours", "2h", True),
    ("5 USD", "$5", False),
    ("5 pounds", "£5", False),
    ("5 kg", "5 g", False),
    ("5 mg", "5 Mg", False),
    ("about 5", "5", False),
    ("5-6", "5", False),
    ("50%", "50", False),
    ("50%", "0.5", False),
]
DATA = [
    ('Here is the JSON:\n```json\n{"a": 1}\n```', '{"a": 1.0}', True),
    ('```json\n{"a": [1, 2]}\n```\nIt has one key.', '{"a":[1,2]}', True),
    ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
    ('{"a": "1"}', '{"a": 1}', False),
    ('"{}"', "{}", False),
]
LISTS = [
    ("- Paris\n- Lyon", "* paris\n* lyon", True),
    ("1. Paris\n2. Lyon", "- Paris\n- Lyon", True),
    ("Paris, Lyon", "Paris\nLyon", True),
    ("- 1,000\n- 5 km", "- 1000\n- 5 kilometres", True),
    ("- Paris\n- Lyon", "- Lyon\n- Paris", False),
    ("2. Paris\n1. Lyon", "- Paris\n- Lyon", False),
    ("- Paris", "- Paris\n- Lyon", False),
    ("- ls -l\n- ls -a", "- ls -L\n- ls -a", False),
]


@pytest.mark.parametrize(
    ("ours", "reference", "equal"), [*COMMANDS, *LABELLED, *NUMBERS, *DATA, *LISTS], ids=repr
)
def test_answers_of_each_kind_are_equal_by_what_they_mean(ours: str, reference: str, equal: bool) -> None:
    assert same(ours, reference) is equal
    assert same(reference, ours) is equal


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


CALL = '{"tool_calls": [{"arguments": {"query": %s, "top": 2}, "name": "search"}]}'


def test_calls_of_tools_are_equal_by_value_and_settle_whatever_they_say() -> None:
    free = CALL % '"a question of five or more words"'
    assert settles(free) and same(free, free.replace(": 2", ": 2.0"))
    assert not same(free, CALL % '"another question of many words"')
    assert not same("Let me search for it.", free) and not same(free, "Let me search for it.")
    long = CALL % json.dumps("word " * 5000)
    assert settles(long) and same(long, long.replace(": 2", ": 2.0")) and not same(long, free)
