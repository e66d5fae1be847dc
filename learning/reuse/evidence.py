"""What counts alone can prove: three bounds that hold at every moment at once, however often one looks.

`certified` says whether labelled candidates were wrong at most a share delta of the time; `hidden_wrong_bound` says how
many wrong answers can have gone out unseen, given how many of the randomly audited ones were wrong. Both are test
supermartingales, so peeking costs nothing (Ville's inequality), and neither assumes that requests are alike. Refuses
to know what a similarity, an entry or a request is.
"""

from __future__ import annotations

import functools
import math

_ALTERNATIVES = (0.0, 0.1, 0.25, 0.5, 0.75)
"""Error rates, in units of delta, that the mixture bets on; each gets an equal share."""
_TILTS = (0.1, 0.2, 0.35, 0.6, 1.0, 1.6, 2.5, 4.0, 40.0)


def log_evidence(labelled: int, wrong: int, delta: float) -> float:
    """Log of the evidence that the mean chance of being wrong, over what was labelled so far, is at most `delta`.

    For a fixed tilt t > 0 and labels whose chances of being wrong are e_1, e_2, ... given all that went before,
    exp(-t * wrong) / prod(1 - e_i * (1 - exp(-t))) is a martingale with mean 1. The log of the denominator is concave
    in e_i, so by Jensen's inequality putting delta in place of each e_i makes it no larger wherever the mean of
    the e_i exceeds delta. A mixture over tilts keeps this. Hence the chance that this ever reaches log(1 / alpha)
    while the mean exceeds delta is at most alpha: for labels that depend on each other, drift, or are chosen by
    looking at earlier ones. (Ville 1939; Howard, Ramdas, McAuliffe, Sekhon 2021, section 3.)

    Raises ValueError for a delta outside (0, 1) or impossible counts.
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta is {delta}; an error rate lies between 0 and 1, such as 0.02")
    if not 0 <= wrong <= labelled:
        raise ValueError(f"{wrong} wrong of {labelled} labelled is impossible")
    terms = []
    for tilt, drop in _bets(delta):
        if math.isinf(tilt):
            if wrong == 0:
                terms.append(-labelled * drop)
        else:
            terms.append(-tilt * wrong - labelled * drop)
    return _log_mean(terms, len(_ALTERNATIVES))


def certified(labelled: int, wrong: int, delta: float, alpha: float) -> bool:
    """Whether the counts prove a mean error of at most `delta`, at confidence 1 - `alpha`, at all times together."""
    return log_evidence(labelled, wrong, delta) >= -math.log(alpha)


def hidden_wrong_bound(audited_wrong: int, audit_share: float, alpha: float) -> float:
    """How many wrong answers were given out, at most, when `audited_wrong` were caught.

    Each candidate is audited with chance `audit_share`, by a coin that nothing else depends on, and given out
    otherwise. If it is wrong it adds t * caught or is given out: with u = log((1 - share * exp(-t)) / (1 - share)) the
    product of exp(u * given out wrong - t * caught) is a supermartingale whatever the candidates' chances of being
    wrong, so given out wrong <= (t * caught + log(1 / alpha)) / u at all times with chance 1 - alpha. A mixture over t is
    solved for the bound. Assumes nothing about the traffic, not even that it is random.

    Raises ValueError for a share or alpha outside (0, 1).
    """
    if not (0.0 < audit_share < 1.0 and 0.0 < alpha < 1.0):
        raise ValueError(f"audit_share {audit_share} and alpha {alpha} must lie between 0 and 1")
    return _hidden_wrong_bound(audited_wrong, audit_share, alpha)


@functools.lru_cache(maxsize=4096)
def _hidden_wrong_bound(caught: int, share: float, alpha: float) -> float:
    gains = [(t, math.log((1.0 - share * math.exp(-t)) / (1.0 - share))) for t in _TILTS]
    target = -math.log(alpha)
    low, high = 0.0, 1.0

    def log_wealth(out: float) -> float:
        return _log_mean([u * out - t * caught for t, u in gains], len(gains))

    while log_wealth(high) < target:
        low, high = high, high * 2.0
    while high - low > 1e-3 * max(1.0, high):
        middle = (low + high) / 2.0
        low, high = (middle, high) if log_wealth(middle) < target else (low, middle)
    return high


@functools.lru_cache(maxsize=64)
def _bets(delta: float) -> tuple[tuple[float, float], ...]:
    """For each alternative: the tilt that is best if it is true, and what one label costs in log wealth (negative)."""
    bets = []
    for fraction in _ALTERNATIVES:
        rate = fraction * delta
        if rate == 0.0:
            bets.append((math.inf, math.log1p(-delta)))
        else:
            tilt = math.log(delta * (1.0 - rate) / (rate * (1.0 - delta)))
            bets.append((tilt, math.log1p(-delta * -math.expm1(-tilt))))
    return tuple(bets)


def _log_mean(logs: list[float], count: int) -> float:
    top = max(logs)
    return top + math.log(sum(math.exp(each - top) for each in logs) / count)
