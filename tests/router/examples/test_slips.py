"""Which listed word an unlisted one was meant to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.examples.slips import KINDS, Slips, kind_of_slip, once, one_slip, swapped_or_doubled
from tests.router.examples.scoring import rarity

WORDS = st.text("abcd", min_size=1, max_size=7)


@pytest.fixture(scope="module")
def slips() -> Slips:
    return rarity().slips


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("platvorm", "platform"),
        ("ebmlem", "emblem"),
        ("freigot", "freight"),
        ("ctiy", "city"),
        ("witth", "with"),
    ],
)
def test_a_word_one_slip_away_is_found(slips: Slips, slip: str, meant: str) -> None:
    assert slips.meant(slip) == meant


@pytest.mark.parametrize("word", ["quoustland", "oren", "mny", "qx-410", "人口", "straße"])
def test_what_is_no_slip_of_a_listed_word_or_too_short_to_tell_means_nothing_else(
    slips: Slips, word: str
) -> None:
    assert slips.meant(word) is None


def test_the_commonest_of_several_words_is_meant() -> None:
    assert Slips(["foods", "feeds"]).meant("feods") == "foods"
    assert Slips(["feeds", "foods"]).meant("feods") == "feeds"


def test_without_a_vocabulary_nothing_is_a_slip() -> None:
    assert Slips([]).meant("platvorm") is None


def edits(word: str) -> set[str]:
    """Every word one slip away, one kind of slip after the other."""
    places = range(len(word) + 1)
    left_out = {word[:i] + word[i + 1 :] for i in places[:-1]}
    swapped = {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in places[:-2]}
    exchanged = {word[:i] + letter + word[i + 1 :] for i in places[:-1] for letter in "abcd"}
    put_in = {word[:i] + letter + word[i:] for i in places for letter in "abcd"}
    return left_out | swapped | exchanged | put_in


@given(one=WORDS, other=WORDS)
def test_one_slip_is_what_its_four_kinds_make(one: str, other: str) -> None:
    if one != other:
        assert one_slip(one, other) == (other in edits(one))


@given(
    words=st.lists(WORDS.filter(lambda word: len(word) > 4), min_size=1, max_size=8, unique=True), word=WORDS
)
def test_whatever_is_a_slip_away_is_found(words: list[str], word: str) -> None:
    found = Slips(words).meant(word)
    near = [other for other in words if other != word and one_slip(word, other)] if len(word) >= 4 else []
    assert found == (near[0] if near else None)


@pytest.mark.parametrize(("one", "other"), [("sanna", "sannna"), ("matteo", "mateo"), ("wathak", "wahtak")])
def test_a_swap_and_a_doubled_letter_are_how_hands_slip(one: str, other: str) -> None:
    assert swapped_or_doubled(one, other)
    assert swapped_or_doubled(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [("rovers", "revers"), ("viklim", "vaiklim"), ("sanna", "sanna"), ("abcd", "cbad"), ("", "a")],
)
def test_another_letter_or_one_more_may_be_another_name(one: str, other: str) -> None:
    assert not swapped_or_doubled(one, other)


@given(WORDS, st.data())
def test_neighbours_swapped_are_seen_wherever_they_stand(word: str, data: st.DataObject) -> None:
    i = data.draw(st.integers(0, max(0, len(word) - 2)))
    swapped = word[:i] + word[i + 1 : i + 2] + word[i : i + 1] + word[i + 2 :]
    assert swapped_or_doubled(word, swapped) is (word != swapped)
    assert swapped_or_doubled(word, once(word)) is (word != once(word))


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("brim", "briem", "shorter"),
        ("briem", "brim", "longer"),
        ("brim", "brem", "vowel"),
        ("brém", "brim", "vowel"),
        ("410", "420", "vowel"),
        ("brim", "brin", "letter"),
        ("pros", "pro", "longer"),
    ],
)
def test_words_one_letter_apart_are_told_apart_by_it(one: str, other: str, kind: str) -> None:
    found = kind_of_slip(one, other)
    assert found is not None and KINDS[found] == kind


@given(WORDS, WORDS)
def test_a_kind_is_told_of_what_is_one_slip_apart_but_no_swap_and_nothing_doubled(
    one: str, other: str
) -> None:
    same_end = one[:1] == other[:1] or one[-1:] == other[-1:]
    told = one != other and one_slip(one, other) and not swapped_or_doubled(one, other) and same_end
    assert (kind_of_slip(one, other) is not None) is told
