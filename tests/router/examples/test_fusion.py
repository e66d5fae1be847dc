"""Both rankings say which candidates are scored, and the nearest are always among them."""

from __future__ import annotations

from dataclasses import replace

from router.examples.fusion import best_fused, fused_scores, ranks
from router.plan import Candidate
from tests.router.examples.scoring import example


def near(count: int) -> list[Candidate]:
    return [Candidate(example(n), 0.9 - 0.01 * n) for n in range(count)]


def test_ranks_are_places_and_the_earlier_of_equals_comes_first() -> None:
    assert ranks([0.1, 0.9, 0.9]) == [2, 0, 1]
    assert ranks([]) == []


def test_what_both_rankings_have_near_the_top_is_first() -> None:
    scores = fused_scores([0, 1, 2], [2, 0, 1])
    assert max(range(3), key=lambda n: scores[n]) == 1


def test_half_of_those_scored_are_the_nearest_and_words_bring_in_others() -> None:
    found = near(30)
    worded = [replace(c, words=float(n)) if n >= 22 else c for n, c in enumerate(found)]
    kept = [c.example.id for c in best_fused(worded, 20)]
    assert kept[:10] == list(range(10)) and {28, 29} <= set(kept) and len(kept) == 20
    assert kept == sorted(kept), "nearest first"
    assert [c.example.id for c in best_fused(found, 20)] == list(range(20)), (
        "without words, by nearness alone"
    )
    assert best_fused(found[:5], 20) == found[:5]
