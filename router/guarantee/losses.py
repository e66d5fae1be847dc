"""Bounds what answers lost in all if only those were looked at that a coin of known probability chose.

For a tilt u let t(q) solve 1 - q + q * exp(-t) = exp(-u). For an answer that loses d and is looked at with probability q,
u * d + log(1 - q + q * exp(-t * d)) is convex in d, and zero at 0 and 1: exp(u * d - t * d * looked) has mean at most 1
over the coin, whatever d is. The product over answers is a supermartingale, and so is a mixture over u: it ever exceeds
1 / alpha with probability at most alpha. (Ville 1939; Howard, Ramdas, McAuliffe, Sekhon 2021, "Time-uniform Chernoff bounds
via nonnegative supermartingales", section 3.) The coin is the only chance in it: answers may depend on each other, drift, or
be chosen by an adversary that knows all this.
"""

from __future__ import annotations

import functools
import math

_TILTS = (0.98, 0.8, 0.6, 0.45, 0.33, 0.24, 0.17, 0.12, 0.08, 0.05, 0.03, 0.018, 0.01, 0.005, 0.002, 0.001)
"""Tilts of the mixture, in units of the largest tilt that the share looked at allows; all have equal weight."""
_LARGEST_TILT = 8.0


class Losses:
    """The losses that were seen, and the bound on all of them."""

    def __init__(self, share: float, alpha: float) -> None:
        """`share`: least probability, above 0, with which any answer is looked at. `alpha`: chance that the bound ever
        fails. Raises ValueError if these are no probabilities."""
        if not (0.0 < share <= 1.0 and 0.0 < alpha < 1.0):
            raise ValueError(f"share {share} and alpha {alpha} must lie between 0 and 1")
        # The martingale needs 1 - exp(-u) below every answer's chance of being looked at.
        largest = min(_LARGEST_TILT, -math.log1p(-share) if share < 1.0 else math.inf)
        self._tilts = tuple(largest * each for each in _TILTS)
        self._share = share
        self._wanted = -math.log(alpha)
        self.spent = [0.0] * len(_TILTS)
        """By tilt, what the losses seen add to the bound's exponent: all that is to be kept of them."""

    def add(self, loss: float, probability: float, times: int = 1) -> None:
        """Count an answer that was looked at, with this probability. `loss`: 0 to 1."""
        for place, tilt in enumerate(self._tilts):
            self.spent[place] += times * _price(tilt, loss, probability)

    def most(self, answers: float = math.inf, unseen: float = 0.0) -> float:
        """Bound what all answers lost, those seen among them, in lost answers; no answer loses more than all of itself.

        `answers`: how many there were. `unseen`: so many are taken to have been seen, and to be lost.
        """
        terms = [
            (tilt, spent + unseen * _price(tilt, 1.0, self._share))
            for tilt, spent in zip(self._tilts, self.spent, strict=True)
        ]
        low, high = 0.0, min((spent + self._wanted + math.log(len(terms))) / tilt for tilt, spent in terms)
        if high >= answers and _mixture(terms, answers) <= self._wanted:
            return answers
        while high - low > 1e-6 * high:
            middle = (low + high) / 2.0
            if _mixture(terms, middle) < self._wanted:
                low = middle
            else:
                high = middle
        return min(high, answers)


@functools.lru_cache(maxsize=4096)
def most_hidden(caught: int, share: float, alpha: float) -> float:
    """Bound the number of wrong answers that were given out.

    Each answer is looked at before with probability `share`, and `caught` were found wrong and not given out.
    """
    losses = Losses(share, alpha)
    losses.add(1.0, share, caught)
    return losses.most() - caught


def _price(tilt: float, loss: float, probability: float) -> float:
    return loss * -math.log1p(math.expm1(-tilt) / probability)


def _mixture(terms: list[tuple[float, float]], loss: float) -> float:
    exponents = [tilt * loss - spent for tilt, spent in terms]
    top = max(exponents)
    return top + math.log(sum(math.exp(each - top) for each in exponents) / len(exponents))
