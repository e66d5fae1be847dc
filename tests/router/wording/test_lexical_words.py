from __future__ import annotations

from router.wording.lexical_words import (
    FUNCTION_WORDS,
    NEGATIONS,
    NUMBER_WORDS,
    QUESTION_WORDS,
)


def test_no_list_holds_a_word_that_a_reader_of_folded_words_never_sees() -> None:
    for words in (NEGATIONS, FUNCTION_WORDS, set(NUMBER_WORDS), set(QUESTION_WORDS)):
        assert not {word for word in words if word != word.casefold() or "'" in word or " " in word}


def test_no_mere_function_word_negates() -> None:
    assert not NEGATIONS & FUNCTION_WORDS
