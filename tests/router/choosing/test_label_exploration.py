"""What is changed to learn from it is changed as often as the log says, and helpfulness can be told from the log."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.choosing.label_exploration import Explored, explored
from router.examples.combiner import Combination
from router.plan import Candidate
from router.prompt import example_tokens
from store.records import Example


def candidate(id: int, characters: int = 40) -> Candidate:
    return Candidate(Example(id, id, "t", "s", "q" * characters, "a", "large", 0.0), 0.9, gain=0.1)


def combination(chosen: Sequence[Candidate]) -> Combination:
    return Combination(tuple(chosen), 0.8, sum(example_tokens(c) for c in chosen))


def ids(result: Explored) -> tuple[int, ...]:
    return tuple(c.example.id for c in result.chosen)


def test_without_a_share_or_without_examples_nothing_is_changed() -> None:
    some = [candidate(i) for i in range(5)]
    for seed in range(200):
        assert explored(combination(some[:3]), some, 0.0, random.Random(seed)) == Explored(
            tuple(some[:3]), "", 1.0
        )
        assert explored(combination([]), some, 1.0, random.Random(seed)) == Explored((), "", 1.0)


def test_a_share_that_is_none_is_refused() -> None:
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="share"):
            explored(combination([]), [], share, random.Random(0))


@pytest.mark.parametrize(
    ("chosen", "known", "share"), [(3, 6, 0.4), (3, 3, 0.4), (1, 4, 0.5), (1, 1, 0.3), (2, 3, 1.0)]
)
def test_the_probabilities_logged_are_the_frequencies_met(chosen: int, known: int, share: float) -> None:
    some = [candidate(i) for i in range(known)]
    rng, met, said = random.Random(3), Counter[tuple[int, ...]](), dict[tuple[int, ...], float]()
    draws = 40_000
    for _ in range(draws):
        result = explored(combination(some[:chosen]), some, share, rng)
        assert said.setdefault(ids(result), result.probability) == result.probability
        met[ids(result)] += 1
    assert sum(said.values()) == pytest.approx(1.0), "every possible set was met, and no other"
    for key, probability in said.items():
        assert met[key] / draws == pytest.approx(probability, abs=4 * (probability / draws) ** 0.5)


def test_the_only_example_dropped_leaves_the_request_without() -> None:
    one = candidate(1)
    result = explored(combination([one]), [one], 1.0, random.Random(0))
    assert result == Explored((), "drop", 1.0)


def test_an_exchanged_example_takes_the_place_of_the_one_it_replaces() -> None:
    some = [candidate(i) for i in range(4)]
    for seed in range(100):
        result = explored(combination(some[:3]), some, 1.0, random.Random(seed))
        if result.kind == "swap":
            assert sorted({0, 1, 2} - set(ids(result)))[0] == ids(result).index(3)
        else:
            assert result.kind == "drop" and len(result.chosen) == 2


def test_nothing_is_put_in_that_does_not_fit() -> None:
    small, large = [candidate(i) for i in range(2)], candidate(9, characters=4000)
    together = combination(small)
    for seed in range(200):
        result = explored(
            together, [*small, large], 1.0, random.Random(seed), budget_tokens=together.tokens + 5
        )
        assert result.kind == "drop" and result.probability == 0.5


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 5), st.integers(0, 5), st.floats(0, 1), st.integers(0, 2**32), st.integers(0, 300))
def test_what_is_sent_differs_in_one_example_at_most_and_fits(
    chosen: int, others: int, share: float, seed: int, spare: int
) -> None:
    some = [candidate(i, characters=37 * i) for i in range(chosen + others)]
    together = combination(some[:chosen])
    budget = together.tokens + spare
    result = explored(together, some, share, random.Random(seed), budget_tokens=budget)
    assert 0 < result.probability <= 1
    before, after = set(range(chosen)), set(ids(result))
    assert len(after) == len(result.chosen) and sum(map(example_tokens, result.chosen)) <= budget
    match result.kind:
        case "":
            assert result.chosen == together.chosen
        case "drop":
            assert after < before and len(before - after) == 1
        case "swap":
            assert len(before - after) == len(after - before) == 1


def test_weighting_by_the_logged_probabilities_recovers_what_each_example_is_worth() -> None:
    """Horvitz-Thompson on a simulated log: 0.5 alone, and known effects of each example."""
    worth = {0: 0.25, 1: 0.10, 2: 0.0, 3: -0.15}
    some = [candidate(i) for i in worth]
    together = combination(some[:3])
    rng, draws = random.Random(17), 60_000
    totals: Counter[frozenset[int]] = Counter()
    for _ in range(draws):
        result = explored(together, some, 0.5, rng)
        sent = frozenset(ids(result))
        right = rng.random() < 0.5 + sum(worth[i] for i in sent)
        totals[sent] += right / result.probability  # type: ignore[assignment]
    quality = {sent: total / draws for sent, total in totals.items()}
    whole = frozenset({0, 1, 2})
    assert quality[whole] == pytest.approx(0.85, abs=0.03)
    for id in whole:
        assert quality[whole] - quality[whole - {id}] == pytest.approx(worth[id], abs=0.05)
        swapped = quality[whole - {id} | {3}]
        assert swapped - quality[whole] == pytest.approx(worth[3] - worth[id], abs=0.08)
