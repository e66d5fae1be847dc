"""What one contributor says changes few counts by one each, and what few say is never told."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from learning.private.budget import PrivacyBudget, share, threshold_for, variance_for
from learning.private.words import Bounds, Cells, bins_of, counted, released, topics, words_of

COMMON = {"what", "how", "the", "about"}
BOUNDS = Bounds(cells=2, words=3)
QUESTIONS = st.lists(
    st.tuples(st.sampled_from(["s1", "s2"]), st.integers(0, 5), st.text("abcdefg ", max_size=60)), max_size=20
)


def is_common(word: str) -> bool:
    return word in COMMON


def test_words_are_what_a_question_is_about_and_never_numbers() -> None:
    asked = "How do I reset the VPN-token for order 4711, what about x1 and O'Neil's 5-pack?"
    assert words_of(asked, is_common) == {"reset", "vpn-token", "for", "order", "and", "o'neil's", "pack"}


@given(QUESTIONS, st.integers(0, 1000))
def test_a_contributor_changes_at_most_so_many_counts_by_one(
    questions: list[tuple[str, int, str]], seed: int
) -> None:
    bins = bins_of(questions, is_common, BOUNDS, random.Random(seed))
    assert len(bins) <= BOUNDS.bins
    assert len({(scope, cell) for scope, cell, _ in bins}) <= BOUNDS.cells
    others = [{("s1", 0, "abc")}, {("s1", 1, "abd"), ("s2", 0, "abc")}]
    with_them, without = counted([*others, bins]), counted(others)
    changed = {k: with_them.get(k, 0) - without.get(k, 0) for k in with_them | without}
    assert all(0 <= change <= 1 for change in changed.values())
    assert sum(changed.values()) <= BOUNDS.bins


def test_what_many_say_is_told_and_what_one_says_is_not() -> None:
    each = share(PrivacyBudget(4.0, 1e-6), 1)
    variance = variance_for(each, BOUNDS.bins)
    threshold = threshold_for(each, BOUNDS.bins, variance)
    counts = {("s", 0, "invoice"): 400, ("s", 0, "hapax"): 1, ("s", 1, "few"): threshold // 3}
    rng = random.Random(9)
    for _ in range(50):
        told = released(counts, variance, threshold, rng.randrange)
        assert set(told) == {("s", 0, "invoice")}
        assert abs(told["s", 0, "invoice"] - 400) < 10 * float(variance) ** 0.5


def test_noise_is_drawn_for_every_count() -> None:
    counts = {("s", cell, "word"): 1000 for cell in range(40)}
    told = released(counts, Fraction(400), 1, random.Random(3).randrange)
    assert len(set(told.values())) > 10


def test_cells_depend_on_the_seed_alone_and_keep_like_with_like() -> None:
    cells, again = Cells(16, 4, seed=3), Cells(16, 4, seed=3)
    rng = np.random.default_rng(1)
    vector = rng.standard_normal(16).astype(np.float32)
    assert cells.of(vector) == again.of(vector) == cells.of(vector * 3)
    assert cells.of(-vector) == 15 - cells.of(vector)
    assert {cells.of(rng.standard_normal(16).astype(np.float32)) for _ in range(300)} == set(range(16))
    assert Cells(16, 0).of(vector) == 0


def test_topics_have_enough_words_the_most_counted_first() -> None:
    told = {
        ("s", 1, "late"): 50,
        ("s", 1, "parcel"): 70,
        ("s", 2, "alone"): 99,
        ("r", 1, "a"): 9,
        ("r", 1, "b"): 8,
    }
    assert topics(told, 2) == [("r", 1, ["a", "b"]), ("s", 1, ["parcel", "late"])]
