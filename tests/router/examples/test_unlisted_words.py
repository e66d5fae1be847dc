"""Near misses of names: a slip of the finger looks like its word, another name does not, and numbers are left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.examples.features import NAMES
from router.examples.reading import read
from router.examples.unlisted_words import NAMES as VALUES
from router.examples.unlisted_words import Spelling, compared, spelling, unlisted
from tests.router.examples.scoring import rarity

LETTERS = st.text("abcdexyzéß", min_size=1, max_size=9) | st.text("ab1-", min_size=1, max_size=5)
WORDS = st.lists(LETTERS, max_size=4, unique=True)


def spelled(words: list[str]) -> tuple[Spelling, ...]:
    return tuple(map(spelling, words))


def words(text: str) -> tuple[Spelling, ...]:
    return unlisted(read(text, rarity()).rare.items())


def test_only_words_that_the_vocabulary_lists_nowhere_are_compared() -> None:
    found = words("What is the capital of Quoustland in 1999, and the weight of the QX-410?")
    assert {each.word for each in found} == {
        "quoustland",
        "qx-410",
        "qx",
    }
    assert words("What is the capital?") == ()


def test_a_slip_of_the_finger_looks_more_like_its_word_than_another_name_does() -> None:
    asked = words("capital of Quoustland?")
    slip, other = (compared(asked, words(f"capital of {name}?")) for name in ("Quostland", "Vermaxia"))
    assert 0.7 < slip[0] < 1.0
    assert other[0] < 0.3


def test_an_identifier_that_differs_in_one_character_is_another_thing() -> None:
    near = compared(words("Weight of the BQ-660S?"), words("Weight of the BQ-660?"))
    far = compared(words("Weight of the BQ-660S?"), words("Weight of the KL-520?"))
    assert near[VALUES.index("unlisted_missed")] == far[VALUES.index("unlisted_missed")] == 1.0


def test_a_name_beside_the_one_asked_for_counts_as_strange_and_not_as_missed() -> None:
    found = compared(words("Quoustland?"), words("Quoustland or Vermaxia?"))
    assert found[:2] == (1.0, 0.0)
    assert found[3] > 0.7


def test_nothing_asked_by_name_is_told_apart_from_a_name_that_is_covered() -> None:
    assert compared((), ()) == (1.0, 0.0, 1.0, 0.0, True)
    assert compared(spelled(["a"]), spelled(["a"])) == (1.0, 0.0, 1.0, 0.0, False)


@given(WORDS, WORDS)
def test_turning_the_two_texts_around_turns_the_values_around(mine: list[str], theirs: list[str]) -> None:
    there, back = compared(spelled(mine), spelled(theirs)), compared(spelled(theirs), spelled(mine))
    assert len(there) == len(VALUES)
    assert all(0.0 <= value <= 1.0 for value in there)
    assert there[:2] == back[2:4] and there[2:4] == back[:2]


def dice(one: str, other: str) -> float:
    if one == other or not (one.isalpha() and other.isalpha()):
        return float(one == other)
    a, b = ({f"^{word}$"[i : i + 2] for i in range(len(word) + 1)} for word in (one, other))
    return 2 * len(a & b) / (len(a) + len(b))


@given(WORDS, WORDS)
def test_each_word_is_met_by_the_one_that_shares_most_pairs_of_letters(
    asked: list[str], theirs: list[str]
) -> None:
    found = compared(spelled(asked), spelled(theirs))
    best = [max((dice(word, other) for other in theirs), default=0.0) for word in asked]
    assert found[0] == pytest.approx(sum(best) / len(best) if best else 1.0)
    assert found[1] == pytest.approx(1.0 - min(best, default=1.0))
    assert found[4] is not bool(asked)


def test_the_scorer_is_given_them() -> None:
    assert set(VALUES) <= set(NAMES)
