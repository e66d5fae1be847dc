"""What a text names is the same whether it is found the short way or by the expressions that define it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.wording import lexical_things
from router.wording.lexical_things import LONGEST, TOKEN, about_other_things, names_differ, number, things

PIECES = (
    *(
        "What",
        "is",
        "iPhone",
        "NASA",
        "Eastwick",
        "Eastwick's",
        "O'Brien",
        "I",
        "A",
        "don't",
        "two",
        "how",
        "many",
    ),
    *(
        "1999",
        "1,000",
        "3.0",
        "v2.0",
        "QX-410",
        "a_b",
        "_9x",
        "--all",
        "-5",
        "x#",
        "c++",
        "a/b/c",
        "/usr",
        "50%",
    ),
    *(
        ".",
        "..",
        "!",
        "?",
        ":",
        "\n",
        "\t",
        " ",
        "  ",
        '"',
        "'",
        "(",
        "[",
        "-",
        "$",
        "é",
        "Zürich",
        "“",
        "«",
        "人口",
        "2️",
    ),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).flatmap(
    lambda pieces: st.sampled_from(["", " "]).map(lambda between: between.join(pieces))
)
ASCII_TEXTS = st.text(st.characters(max_codepoint=127), max_size=60) | TEXTS.filter(str.isascii)


@given(ASCII_TEXTS)
def test_plain_text_is_cut_into_the_same_words_as_any_other(text: str) -> None:
    by_definition = [token.casefold() for token in TOKEN.findall(text)]
    if "'" in text:
        by_definition = [re.sub("'s$", "", word).replace("'", "") for word in by_definition]
    assert list(things(text).words) == by_definition


@given(ASCII_TEXTS | TEXTS)
def test_no_word_for_a_machine_is_missed_for_looking_at_the_whole_text_first(text: str) -> None:
    pieces = [word.strip(".,;:!?()\"'") for word in text.split()]
    found = [piece.casefold() for piece in pieces if lexical_things._MACHINE.search(piece)]
    machine = lexical_things._machine(text)
    assert [piece for piece in machine if lexical_things._MACHINE.search(piece)] == found
    assert all("/" in piece for piece in machine if piece not in found)


@given(TEXTS | st.text(max_size=40))
def test_a_capital_is_no_name_where_it_opens_a_sentence_and_only_there(text: str) -> None:
    openings = re.finditer(r"(?:^|[.!?。！？:\n]\s*)[\"'(\[“«]*(\w+)", text)
    starts = {opening.start(1) for opening in openings}
    for word in re.finditer(r"\w+", text):
        assert lexical_things._opens_sentence(text, word.start()) is (word.start() in starts)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What does Elsa Morwen say?", ("elsa", "morwen")),
        ("Elsa says so. Ask her.", ()),
        ("is the iPhone from NASA?", ("iphone", "nasa")),
        ("NASA says so", ("nasa",)),
        ("and\nElsa", ()),
        ("she said “Elsa” twice", ("elsa",)),
        ("Wohnt Zoë in Zürich?", ("zoë", "zürich")),
        ("I am here. A lone capital is no name", ()),
        ("no capitals at all", ()),
    ],
)
def test_names_are_capitals_that_do_not_merely_open_a_sentence(text: str, names: tuple[str, ...]) -> None:
    assert things(text).names == names


def test_a_number_in_words_is_the_number_in_digits_and_keeps_its_place() -> None:
    assert things("from 5 to seven, and 1,000").numbers == ("5", "7", "1000")
    assert number("eleven") == number("11")
    assert number("often") is None


def test_what_is_asked_for_is_known_by_its_word() -> None:
    assert things("How many, and when?").asks == {"how_much", "when"}
    assert things("谁来").asks == {"who"}
    assert not things("Is it so?").asks


def test_texts_are_about_other_things_where_one_names_what_the_other_does_not() -> None:
    same = things("What does Elsa say of the QX-410?")
    assert not about_other_things(same, things("what of the QX-410 does elsa say"))
    for other in (
        "What does Ilsa say of the QX-410?",
        "What does Elsa say of the QX-470?",
        "What does Elsa say?",
    ):
        assert about_other_things(same, things(other))
        assert about_other_things(things(other), same)
    assert names_differ(things("ask Elsa"), things("ask Ilsa"))


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    long = things("word " * LONGEST + "Eastwick 1999")
    assert long.length > LONGEST
    assert set(long.words) == {"word"}
    assert not long.names
    assert not long.numbers
