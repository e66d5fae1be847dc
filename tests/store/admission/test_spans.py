"""Replacing what was found: readable, the same value always the same placeholder, nothing left over."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.admission.spans import MAX_VALUES, Span, TooMany, apart, redacted


def span(text: str, value: str, kind: str = "EMAIL", key: str | None = None) -> Span:
    at = text.index(value)
    return Span(kind, at, at + len(value), key or value)


def test_two_people_never_become_one() -> None:
    question = "Is ann@x.io older than bob@x.io?"
    answer = "bob@x.io is younger than ann@x.io."
    clean = redacted(question, answer, [span(question, "ann@x.io"), span(question, "bob@x.io")], [])
    assert clean.question == "Is [EMAIL] older than [EMAIL_2]?"
    assert clean.answer == "[EMAIL_2] is younger than [EMAIL]."


def test_one_person_never_becomes_two() -> None:
    question, answer = "Call +1 415 555 2671", "I will call (415) 555-2671."
    number = "+14155552671"
    clean = redacted(
        question,
        answer,
        [span(question, "+1 415 555 2671", "PHONE", number)],
        [span(answer, "(415) 555-2671", "PHONE", number)],
    )
    assert (clean.question, clean.answer, clean.hollow) == ("Call [PHONE]", "I will call [PHONE].", False)


def test_a_value_recognised_once_is_replaced_everywhere() -> None:
    question, answer = "My account number is 4711 0815.", "4711 0815 is blocked. Again: 4711 0815."
    clean = redacted(question, answer, [span(question, "4711 0815", "BANK_ACCOUNT")], [])
    assert "4711" not in clean.question + clean.answer


def test_a_hole_that_only_the_answer_has_is_told() -> None:
    answer = "Write to ann@x.io"
    assert redacted("Who helps?", answer, [], [span(answer, "ann@x.io")]).hollow


def test_too_many_values_are_refused_rather_than_replaced() -> None:
    spans = [Span("EMAIL", i, i + 1, str(i)) for i in range(MAX_VALUES + 1)]
    with pytest.raises(TooMany):
        redacted("x" * (MAX_VALUES + 1), "", spans, [])


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=20))
def test_overlapping_finds_leave_nothing_of_any_of_them(places: list[tuple[int, int]]) -> None:
    spans = [Span("X", start, start + length, f"{start} {length}") for start, length in places]
    kept = apart(spans)
    covered = {i for s in kept for i in range(s.start, s.end)}
    assert covered == {i for s in spans for i in range(s.start, s.end)}
    assert all(a.end <= b.start for a, b in itertools.pairwise(kept))
