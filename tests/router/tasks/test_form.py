"""A label is read from a teacher's answer and written back just as it came; what is no label is never read as one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.tasks.form import Form, normalised, overlapping, read, usual

LABELS = ("positive", "negative", "card_arrival", "Not Spam")


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("positive", "positive"),
        ("Positive.", "Positive"),
        ("Label: positive", "positive"),
        ("**Label:** Positive\n", "Positive"),
        ("card_arrival", "card_arrival"),
        ("Sentiment: not spam.", "not spam"),
        ('{"label": "positive"}', "positive"),
        ('```json\n{"label":"negative"}\n```', "negative"),
        ('{\n  "label" : "Not Spam"\n}\n', "Not Spam"),
    ],
)
def test_what_is_read_is_written_again_byte_for_byte(answer: str, label: str) -> None:
    found = read(answer, LABELS)
    assert found is not None and found[0] == label
    assert found[1].write(label) == answer
    assert Form.decoded(found[1].encoded()) == found[1]


@pytest.mark.parametrize("labels", [LABELS, ()])
@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I'm sorry, I can't help with that.",
        "I’m unable to say",
        "It could be either. I would say positive.",
        '{"label": "positive", "why": "it praises"}',
        '{"label": {"name": "positive"}}',
        '{"label": "positive"',
        '["positive"]',
        "positive, negative",
        "The customer writes that the parcel came late, so this is about its arrival",
    ],
)
def test_a_refusal_or_an_explanation_is_no_label(answer: str, labels: tuple[str, ...]) -> None:
    assert read(answer, labels) is None


@pytest.mark.parametrize(
    "answer", ["not positive", "The sentiment is positive.", "neutral", '{"label": "x"}']
)
def test_where_labels_are_declared_nothing_else_is_one(answer: str) -> None:
    assert read(answer, LABELS) is None


def test_marks_that_belong_to_a_label_stay_with_it() -> None:
    assert read("(A)", ("(A)", "(B)")) == ("(A)", Form())
    assert read("(A)", ("A", "B")) == ("A", Form("(", ")"))
    assert read("C++", ("C", "C++", "C#")) == ("C++", Form())
    assert read('{"spam": true}', ("true", "false")) == ("true", Form('{"spam": ', "}"))


def test_labels_that_differ_in_case_marks_or_spaces_only_overlap() -> None:
    assert overlapping(["not_spam", "spam", "Not Spam."]) == ("not_spam", "Not Spam.")
    assert overlapping(["spam", '""']) == ('""', '""')
    assert overlapping(["C", "C++", "C#", "1", "-1"]) is None


def test_the_commonest_form_is_the_usual_one() -> None:
    assert usual([Form(), Form("Label: "), Form("Label: ")]) == Form("Label: ")
    assert usual([]) == Form()


@given(st.text(max_size=20), st.booleans())
def test_no_label_is_lost_in_json(label: str, fenced: bool) -> None:
    form = Form('{"a": ', "}", quoted=True)
    if normalised(label):
        assert form.read(form.write(label), (label,)) == label
