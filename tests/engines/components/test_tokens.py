"""Tokens of a text where no tokenizer is known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engines.components.tokens import cut_long, offsets


def test_words_and_signs_are_tokens_and_long_words_several() -> None:
    text = "It's understudies, 世界!"
    assert [text[begin:end] for begin, end in offsets(text)] == [
        *("It", "'", "s", "unders", "tudies", ",", "世", "界", "!")
    ]


@given(st.text())
def test_they_are_in_order_and_leave_nothing_out_but_white_space(text: str) -> None:
    found = offsets(text)
    ends = [0, *(end for _, end in found)]
    for (begin, end), before in zip(found, ends, strict=False):
        assert before <= begin < end and not text[before:begin].strip()
    assert not text[ends[-1] :].strip()


def test_what_is_longer_than_any_word_is_cut() -> None:
    assert cut_long([(0, 5), (5, 65)]) == [(0, 5), *((at, at + 6) for at in range(5, 65, 6))]
    whole = [(0, 48), (50, 50)]
    assert cut_long(whole) is whole
