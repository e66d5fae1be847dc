"""Accounts for the privacy budget of releases: zero-concentrated differential privacy, converted to (epsilon, delta).

A release with discrete Gaussian noise of variance v on counts of which one contributor changes at most `bins`, each by
one, is rho-zCDP with rho = bins / (2 v) (Canonne, Kamath, Steinke 2020, arXiv 2004.00010, section 2). What its threshold
lets pass has a probability of its own, so a release is delta-approximate rho-zCDP, and releases add up in both (Bun,
Steinke 2016, arXiv 1605.02065, section 8). The conversion to (epsilon, delta) is `dp_accounting`'s, of the extra `privacy`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

_ROUND_UP = 1 + 1e-9


class AccountingMissing(Exception):
    """The extra `privacy` is not installed. The text says how to."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The privacy that one or several releases spent."""

    rho: float = 0.0
    """The rho of zCDP."""
    slip: float = 0.0
    """Probability that a count of one contributor passes the threshold; part of delta."""


@dataclass(frozen=True, slots=True)
class PrivacyBudget:
    """The privacy that all releases of a tenant may spend together: each contributor's guarantee is (epsilon, delta)."""

    epsilon: float
    delta: float


def together(spent: Iterable[Spent]) -> Spent:
    """Add up releases, whatever later ones took from what earlier ones said. Sums are rounded up."""
    each = tuple(spent)
    return Spent(
        math.fsum(s.rho for s in each) * _ROUND_UP if len(each) > 1 else sum(s.rho for s in each),
        math.fsum(s.slip for s in each) * _ROUND_UP if len(each) > 1 else sum(s.slip for s in each),
    )


def epsilon_of(spent: Spent, delta: float) -> float:
    """The epsilon that holds with `delta`; infinite where slips alone use delta up. Raises AccountingMissing."""
    if spent.rho == 0.0:
        return 0.0
    left = delta - spent.slip
    if left <= 0.0:
        return math.inf
    try:
        from dp_accounting import ZCDpEvent
        from dp_accounting.rdp import RdpAccountant
    except ImportError as error:
        raise AccountingMissing(
            "the accounting of privacy is not installed: pip install 'understudy-gateway[privacy]'"
        ) from error
    accountant = RdpAccountant()
    accountant.compose(ZCDpEvent(spent.rho))
    return float(accountant.get_epsilon(left))


def share(budget: PrivacyBudget, releases: int) -> Spent:
    """Return what each of so many equal releases may spend, so that the budget holds for all. Raises AccountingMissing."""
    slips = budget.delta / 2
    low, high = 0.0, budget.epsilon
    for _ in range(60):
        middle = (low + high) / 2
        if epsilon_of(Spent(middle, slips), budget.delta) <= budget.epsilon:
            low = middle
        else:
            high = middle
    # A hair less, so that the sum of all shares, rounded up, still fits.
    return Spent(low / releases / (1 + 1e-6), slips / releases / (1 + 1e-6))


def fits(budget: PrivacyBudget, before: Spent, release: Spent) -> bool:
    """Tell if the budget allows for one more release. Raises AccountingMissing."""
    return epsilon_of(together((before, release)), budget.delta) <= budget.epsilon


def variance_for(release: Spent, bins: int) -> Fraction:
    """The noise that costs no more than `release.rho`, where one contributor changes at most `bins` counts by one each."""
    return Fraction(math.ceil(bins / (2 * release.rho) * _ROUND_UP * 1000), 1000)


def threshold_for(release: Spent, bins: int, variance: Fraction) -> int:
    """The least noisy count to tell, so that a count of one contributor alone passes with probability `slip` at most.

    Of at most `bins` such counts each is 1, and P(1 + X >= t) = P(X >= t - 1) <= P(N(0, v) >= t - 2), which Canonne et al.
    show for the tail of the discrete Gaussian, summed over the bins.
    """
    deviation = math.sqrt(variance)
    t = 2
    while bins * math.erfc((t - 2) / deviation / math.sqrt(2)) / 2 * _ROUND_UP > release.slip:
        t += 1
    return t
