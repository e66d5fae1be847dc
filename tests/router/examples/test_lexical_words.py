from __future__ import annotations

from router.examples.lexical_words import (
    BESIDE_NUMBERS,
    CALENDAR,
    FUNCTION_WORDS,
    NEGATIONS,
    NUMBER_WORDS,
    OPPOSITES,
    QUESTION_WORDS,
    UNIT_NAMES,
    UNITS,
)


def test_no_list_holds_a_word_that_a_reader_of_folded_words_never_sees() -> None:
    for words in (NEGATIONS, UNITS, CALENDAR, FUNCTION_WORDS, set(NUMBER_WORDS), set(QUESTION_WORDS)):
        assert not {word for word in words if word != word.casefold() or "'" in word or " " in word}


def test_no_opposite_is_its_own() -> None:
    assert all(len(pair) == 2 for pair in OPPOSITES)


def test_no_mere_function_word_negates() -> None:
    assert not NEGATIONS & FUNCTION_WORDS


def test_no_unit_goes_by_a_name_that_is_none() -> None:
    names = {UNIT_NAMES.get(unit, unit) for unit in UNITS}
    assert {UNIT_NAMES.get(name, name) for name in names} == names
    assert "" not in names
    assert BESIDE_NUMBERS <= UNITS and set(UNIT_NAMES) <= UNITS
