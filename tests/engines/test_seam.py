"""Where a repeated end meets the partial answer, and that nothing else is ever taken for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.seam import NoMatch, Seam, anchor_of, instruction

TWELVE = "one two three four five six seven eight nine ten eleven twelve"


def new(partial: str, *pieces: str) -> str:
    """What is new in what an engine said, piece by piece to its end."""
    seam, found = Seam(partial), []
    for piece in (*pieces, None):
        if seam.found:
            found.append(piece or "")
        else:
            found.append(seam.said(piece or "", last=piece is None))
    return "".join(found)


def test_the_last_eight_words_are_to_be_repeated_and_of_a_shorter_answer_all() -> None:
    assert anchor_of(TWELVE + " ") == "five six seven eight nine ten eleven twelve"
    assert anchor_of("one two") == "one two"
    assert instruction(anchor_of(TWELVE)).endswith("\n\nfive six seven eight nine ten eleven twelve")


def test_an_answer_that_began_with_its_own_end_is_to_be_repeated_further_back() -> None:
    assert anchor_of("la " * 40) == ("la " * 40).strip()
    begun = "a b c d e f g h then a b c d e f g h"
    assert anchor_of(begun) == begun[2:]


def test_words_without_blanks_are_repeated_in_part() -> None:
    text = "".join(chr(0x4E00 + place) for place in range(1000))
    assert anchor_of(text) == text[-200:]


@pytest.mark.parametrize(
    ("partial", "said", "rest"),
    [
        (TWELVE, "five six seven eight nine ten eleven twelve thirteen", " thirteen"),
        (TWELVE, TWELVE + " thirteen", " thirteen"),
        (TWELVE + " ", TWELVE + " thirteen", "thirteen"),
        (TWELVE + "\n", TWELVE + "\n\nthirteen", "\nthirteen"),
        (TWELVE + "\n", TWELVE + " thirteen", "thirteen"),
        (TWELVE, " five  six\nseven eight nine ten eleven\ttwelve.", "."),
        (TWELVE + " thir", "six seven eight nine ten eleven twelve thirteen", "teen"),
        ("Forty", "Forty-two.", "-two."),
        (TWELVE, TWELVE, ""),
        (TWELVE + " ", TWELVE, ""),
    ],
)
def test_only_what_is_new_is_used(partial: str, said: str, rest: str) -> None:
    assert new(partial, said) == rest
    assert new(partial, *said) == rest


@pytest.mark.parametrize(
    ("partial", "said"),
    [
        (TWELVE, "Sure! five six seven eight nine ten eleven twelve thirteen"),
        (TWELVE, "thirteen fourteen"),
        (TWELVE, "eleven twelve thirteen"),
        (TWELVE, "five six seven eight nine ten eleven"),
        (TWELVE, ""),
        (TWELVE, "\n" * 1000),
        (TWELVE + " ", TWELVE + "th thirteen"),
    ],
)
def test_what_repeats_neither_is_never_used(partial: str, said: str) -> None:
    with pytest.raises(NoMatch):
        new(partial, said)
    with pytest.raises(NoMatch):
        new(partial, *said)


TEXTS = st.text("ab ,\né。", min_size=1, max_size=120).filter(str.strip)


@given(TEXTS, st.text("ab ,\né。", max_size=40), st.booleans(), st.data())
def test_however_it_is_cut_the_two_make_what_one_engine_would_have_said(
    partial: str, rest: str, whole: bool, data: st.DataObject
) -> None:
    """The engine goes on in its own way after the end of the partial answer, or after all of it."""
    said = (partial if whole else anchor_of(partial)).rstrip() + partial[len(partial.rstrip()) :] + rest
    cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=8)))
    pieces = [said[a:b] for a, b in zip([0, *cuts], [*cuts, len(said)], strict=True)]
    assert partial + new(partial, *pieces) == partial + rest


@given(TEXTS, st.text("ab ,\né。", max_size=200))
def test_what_is_used_always_follows_the_end_or_the_whole_of_the_partial_answer(
    partial: str, said: str
) -> None:
    try:
        rest = new(partial, said)
    except NoMatch:
        return
    plain = "".join(said.split()).removesuffix("".join(rest.split()))
    assert plain in {"".join(anchor_of(partial).split()), "".join(partial.split())}
