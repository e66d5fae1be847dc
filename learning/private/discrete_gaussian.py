"""Integers drawn from the discrete Gaussian distribution, exactly: no floating-point number takes part.

Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy" (arXiv 2004.00010), Algorithms 1 to 3. Noise
made of floats leaks through the gaps between them (Mironov 2012); noise made of integers has none.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from fractions import Fraction

Below = Callable[[int], int]
"""A uniform integer from 0 to below its argument."""


def discrete_gaussian(variance: Fraction, below: Below = secrets.randbelow) -> int:
    """One integer x with probability proportional to exp(-x^2 / (2 variance)).

    `below`: a source of randomness; the default is the operating system's. Some 20 us. Raises ValueError for a variance that
    is not above 0.
    """
    if variance <= 0:
        raise ValueError(f"a variance of {variance}: above 0 is right")
    scale = math.isqrt(math.floor(variance)) + 1
    while True:
        candidate = discrete_laplace(scale, below)
        off = abs(candidate) - variance / scale
        if bernoulli_exp(off * off / (2 * variance), below):
            return candidate


def discrete_laplace(scale: int, below: Below = secrets.randbelow) -> int:
    """One integer x with probability proportional to exp(-|x| / scale)."""
    while True:
        low = below(scale)
        if not bernoulli_exp(Fraction(low, scale), below):
            continue
        high = 0
        while bernoulli_exp(Fraction(1), below):
            high += 1
        size = low + scale * high
        negative = below(2) == 1
        if negative and size == 0:
            continue
        return -size if negative else size


def bernoulli_exp(exponent: Fraction, below: Below = secrets.randbelow) -> bool:
    """True with probability exp(-`exponent`), for an exponent of 0 or more."""
    while exponent > 1:
        if not bernoulli_exp(Fraction(1), below):
            return False
        exponent -= 1
    steps = 1
    # P(still going after k steps) = exponent^k / k!: the series of exp(-x), as in von Neumann's method.
    while below(exponent.denominator * steps) < exponent.numerator:
        steps += 1
    return steps % 2 == 1
