"""The sampler draws from the distribution it names, and from integers only."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction

import pytest

from learning.private.discrete_gaussian import bernoulli_exp, discrete_gaussian, discrete_laplace

DRAWS = 8000


def chi_square(seen: Counter[int], probability: dict[int, float]) -> float:
    """Over the cells that expect at least five; of the rest, together."""
    usual = {x: p for x, p in probability.items() if p * DRAWS >= 5}
    total = sum((seen[x] - p * DRAWS) ** 2 / (p * DRAWS) for x, p in usual.items())
    rest = 1 - sum(usual.values())
    others = DRAWS - sum(seen[x] for x in usual)
    return (total + ((others - rest * DRAWS) ** 2 / (rest * DRAWS) if rest * DRAWS > 1 else 0)) / len(usual)


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(2), Fraction(2500, 100)])
def test_draws_follow_the_discrete_gaussian(variance: Fraction) -> None:
    rng = random.Random(5)
    seen = Counter(discrete_gaussian(variance, rng.randrange) for _ in range(DRAWS))
    weights = {x: math.exp(-x * x / (2 * float(variance))) for x in range(-60, 61)}
    total = sum(weights.values())
    assert chi_square(seen, {x: w / total for x, w in weights.items()}) < 2


def test_draws_follow_the_discrete_laplace() -> None:
    rng = random.Random(6)
    seen = Counter(discrete_laplace(3, rng.randrange) for _ in range(DRAWS))
    weights = {x: math.exp(-abs(x) / 3) for x in range(-80, 81)}
    total = sum(weights.values())
    assert chi_square(seen, {x: w / total for x, w in weights.items()}) < 2


@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1, 7), Fraction(1), Fraction(9, 4)])
def test_a_coin_falls_with_the_probability_of_its_exponent(exponent: Fraction) -> None:
    rng = random.Random(7)
    heads = sum(bernoulli_exp(exponent, rng.randrange) for _ in range(DRAWS))
    expected = math.exp(-exponent) * DRAWS
    assert abs(heads - expected) < 4 * math.sqrt(DRAWS) / 2 + (exponent == 0)


def test_a_variance_of_nothing_is_refused_and_the_system_is_the_default_source() -> None:
    with pytest.raises(ValueError, match="above 0"):
        discrete_gaussian(Fraction(0))
    assert isinstance(discrete_gaussian(Fraction(100)), int)
