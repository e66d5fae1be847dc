"""Where and when somebody lives and was born."""

from __future__ import annotations

import pytest

from store.admission.places import places


@pytest.mark.parametrize(
    "value",
    [
        "12 Baker Street, London NW1 6XE",
        "Flat 3, 17 Mozart Gardens",
        "1600 N Maple Ave, Apt 4B, Springfield, IL 62704",
        "350 5th Ave",
        "Musterstraße 12, 10115 Berlin",
        "Am Lindenplatz 4",
        "Cedarstraat 32",
        "12 rue de la Paix, 75002 Paris",
        "Calle Mayor 5, 28013 Madrid",
        "Via Garibaldi 7",
        "P.O. Box 4711",
    ],
)
@pytest.mark.parametrize("sentence", ["{}", "I live at {}.", "Is {} correct?"])
def test_an_address_is_never_left_readable(value: str, sentence: str) -> None:
    text = sentence.format(value)
    (found,) = places(text)
    assert found.kind == "ADDRESS"
    assert found.start <= text.index(value) and found.end >= text.index(value) + len(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("DOB: 12/03/1984", "12/03/1984"),
        ("date of birth is March 12, 1984", "March 12, 1984"),
        ("I was born on 12 March 1984.", "12 March 1984"),
        ("Geburtsdatum: 12.3.1984", "12.3.1984"),
        ('"birth_date" no; "birthdate": "1984-03-12"', "1984-03-12"),
    ],
)
def test_a_date_of_birth_is_never_left_readable(text: str, value: str) -> None:
    assert [text[s.start : s.end] for s in places(text) if s.kind == "DATE_OF_BIRTH"] == [value]


@pytest.mark.parametrize(
    "text",
    [
        "The 2016 Supreme Court decided.",
        "Spring 2021 was cold.",
        "Albert Einstein, date of birth: 14 March 1879",
        "He walked 12 miles down the road.",
        "The meeting is on 12 March 1984.",
        "5 Way intersections are rare.",
        "$12 Broad Street bonds",
    ],
)
def test_history_and_figures_of_speech_are_not_touched(text: str) -> None:
    assert list(places(text)) == []
