"""Anytime-valid evidence on a mean in [0, 1], by betting against a hypothesis.

Waudby-Smith and Ramdas (2023), "Estimating means of bounded random variables by betting": against the hypothesis that the
mean is at most m, a gambler who stakes the fraction f multiplies the capital by 1 + f (x - m) / m with each value x. If the
hypothesis holds the capital is expected not to grow, so by Ville's inequality it ever exceeds 1 / alpha with a probability
of at most alpha, however often one looks. `_STAKES` are played at once, each with its share of the capital: a mixture needs
no guess of the true mean and, unlike a plug-in, does not depend on the order of the values.

A value may also exceed 1, up to `most`: one less a loss that counts both ways is from 0 to 2. The bet for the mean is the
same; against it, the stake is a fraction of what the largest value could cost.

Values need not be identically distributed: the hypothesis is that at every comparison the expected value, given the past,
is at most m. What was compared must be a fair sample of what is decided: at any one time every request of a region is
compared with the same probability, fixed before its outcome is known, so no weights are needed.

As long as every stake is fixed, the same holds of the mean of what was expected each time: the product of the factors
1 + f (e - m) / m is at most 1 if the mean of the e is at most m. So values may drift, depend on each other, or follow
from earlier ones.

Comparisons that belong together, such as the turns of a conversation, are no independent proofs: a unit of them is one
value, their mean, and while it grows it counts with the mean so far.

A change is found by betting the other way with the capital restarted at every step (Shin, Ramdas and Rinaldo, "E-detectors",
of the Shiryaev-Roberts kind): while the mean is at least m, an alarm comes after `FALSE_ALARM_AFTER` comparisons or more in
expectation, however much good evidence lies behind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

_STAKES = (0.2, 0.4, 0.6, 0.8, 0.99)
_CAPITAL = (0.05, 0.15, 0.30, 0.25, 0.25)
_CAPITAL_BOTH_WAYS = (0.05, 0.05, 0.10, 0.20, 0.60)
"""The capital by stake if values exceed 1: most of what they tell is won by large stakes."""
_AGAINST_STAKES = (0.03, 0.1, 0.3, 0.6, 0.9)
_AGAINST_CAPITAL = (0.2, 0.2, 0.2, 0.2, 0.2)
FALSE_ALARM_AFTER = 500.0
_LEVELS = 100
_HOPELESS_ALPHA = 0.01
_USUAL_GROWTH = 0.03
"""Growth of the logarithm of the capital per comparison that is assumed before any is known."""
_USUAL_FOR = 15
_UNITS = 200
"""Latest units of several comparisons that are remembered: a comparison of an older one counts as another unit's."""
_ENOUGH = 20
"""Comparisons from which on the usual growth is no longer assumed at least: fewer are luck."""

W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class Turned(Generic[W]):
    """A way that was opened or closed."""

    way: W
    """The name of its region, or the least confidence that it asks for."""
    opened: bool
    compared: int
    lower: float
    upper: float


def spent(number: int) -> float:
    """Share of alpha for the `number`-th of a series without end, from 0: they add up to 1."""
    return 6 / (math.pi * (number + 1)) ** 2


def exceeds(counts: Mapping[float, int], threshold: float, alpha: float) -> bool:
    """Tell if values from 0 to 1, given by how often each was seen, prove a mean above `threshold`.

    The chance of ever being wrong is `alpha`, however often one looks.
    """
    logs = [0.0] * len(_STAKES)
    for value, count in counts.items():
        gains, _ = _gains(threshold, value, 1.0)
        for i, gain in enumerate(gains):
            logs[i] += count * gain
    return _reaches(logs, _CAPITAL, -math.log(alpha))


class Detector:
    """Notices that values have lately fallen below what they must be on average."""

    def __init__(self, false_alarm_after: float = FALSE_ALARM_AFTER, most: float = 1.0) -> None:
        """`false_alarm_after`: values after which it may be expected to have `found` a change while there is none. `most`:
        the largest value, 1 or more."""
        self._false_alarm_after = false_alarm_after
        self._most = most
        self.restart()

    def restart(self) -> None:
        """Begin anew."""
        self._capital = [0.0] * len(_AGAINST_STAKES)
        self.found = False

    def add(self, value: float, level: float) -> None:
        """Count one value, whose expectation is to be `level` at least."""
        _, gains = _gains(level, value, self._most)
        for i, gain in enumerate(gains):
            self._capital[i] = (self._capital[i] + 1) * math.exp(gain)
        self.found = self.found or self.alarm >= self._false_alarm_after

    @property
    def alarm(self) -> float:
        """The capital of the bet that values have fallen."""
        return sum(map(float.__mul__, self._capital, _AGAINST_CAPITAL))


class Evidence:
    """The comparisons of one way to answer since it was last begun anew, and what they prove of their mean."""

    def __init__(self, threshold: float, alpha: float, most: float = 1.0) -> None:
        """`threshold`: what the mean must exceed, 0 to 1, exclusive. `alpha`: chance of ever finding so wrongly, however
        often it is begun anew. `most`: the largest value, 1 or more."""
        self.threshold = threshold
        self._all_alpha = alpha
        self._most = most
        self._capital = _capital_for(most)
        self._detector = Detector(most=most)
        self.begun = -1
        """The number of times it was begun anew."""
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all comparisons; those to come get a smaller share of alpha."""
        self.begun += 1
        self.alpha = self._all_alpha * spent(self.begun)
        self.compared = 0
        self.proven = False
        """True if the mean exceeds the threshold."""
        self.hopeless = False
        """True if the mean is below the threshold."""
        self._for = [0.0] * len(_STAKES)
        self._against = [0.0] * len(_AGAINST_STAKES)
        self._seen = np.zeros(int(self._most * _LEVELS) + 1)
        self._bounds: tuple[float, float] | None = (0.0, self._most)
        self._units: dict[float, tuple[int, float]] = {}
        """Of the latest units: the number of comparisons, and their mean."""
        self._detector.restart()

    def add(self, quality: float, unit: float = 0.0) -> None:
        """Count one comparison. Those of the same `unit`, such as a conversation, count once, with their mean so far; 0: it
        stands alone."""
        number, mean = self._units.pop(unit, (0, 0.0)) if unit else (0, 0.0)
        if number:
            self._count(mean, -1.0)
        mean += (quality - mean) / (number + 1)
        self._count(mean, 1.0)
        if unit:
            self._units[unit] = number + 1, mean
            if len(self._units) > _UNITS:
                del self._units[next(iter(self._units))]
        self._detector.add(quality, self.threshold)
        if not self.proven and _reaches(self._for, self._capital, -math.log(self.alpha)):
            self.proven = True
            self._detector.restart()
        self.hopeless = self.hopeless or _reaches(self._against, _AGAINST_CAPITAL, -math.log(_HOPELESS_ALPHA))

    def _count(self, quality: float, times: float) -> None:
        """Count a value once more (`times` 1), or take it back (-1)."""
        self.compared += int(times)
        self._bounds = None
        self._seen[int(quality * _LEVELS + 1e-9)] += times
        gains, against = _gains(self.threshold, quality, self._most)
        for i, gain in enumerate(gains):
            self._for[i] += times * gain
        for i, gain in enumerate(against):
            self._against[i] += times * gain

    @property
    def changed(self) -> bool:
        """Tell if the mean fell below the threshold after it was proven to exceed it."""
        return self.proven and self._detector.found

    @property
    def alarm(self) -> float:
        """The capital of the bet that the mean fell lately: `changed` once it is large, if the mean was proven before."""
        return self._detector.alarm

    @property
    def mean(self) -> float | None:
        """Return the mean of the values so far; None without any."""
        return (
            float(self._seen @ np.arange(len(self._seen))) / _LEVELS / self.compared
            if self.compared
            else None
        )

    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the mean, each of which ever fails with a probability of `alpha` at most."""
        if self._bounds is None:
            self._bounds = _bounds(self._seen, self.alpha, self._most)
        return self._bounds

    def expected_more(self) -> int | None:
        """Comparisons still expected until the mean is proven to exceed the threshold; None if it is not expected to."""
        if self.proven:
            return 0
        wanting = -math.log(self.alpha) - _capital(self._for, self._capital)
        growth = (max(self._for) + _USUAL_FOR * _USUAL_GROWTH) / (self.compared + _USUAL_FOR)
        if self.compared < _ENOUGH:
            growth = max(growth, _USUAL_GROWTH)
        if self.hopeless or growth < _USUAL_GROWTH / 50:
            return None
        return math.ceil(wanting / growth)


def _capital_for(most: float) -> tuple[float, ...]:
    return _CAPITAL if most <= 1.0 else _CAPITAL_BOTH_WAYS


@lru_cache(maxsize=4096)
def _gains(threshold: float, quality: float, most: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return what one comparison adds to the logarithm of each stake's capital, betting for the mean and against it."""
    up, down = (quality - threshold) / threshold, (threshold - quality) / (most - threshold)
    return tuple(math.log1p(s * up) for s in _STAKES), tuple(math.log1p(s * down) for s in _AGAINST_STAKES)


def _reaches(logs: list[float], shares: tuple[float, ...], wanted: float) -> bool:
    """Tell if the capital's logarithm is at least `wanted`; as the shares add up to 1, it is at most the largest one."""
    return max(logs) >= wanted and _capital(logs, shares) >= wanted


def _capital(logs: list[float], shares: tuple[float, ...]) -> float:
    """Logarithm of the sum of capitals, given the logarithm of what each share was multiplied by."""
    most = max(logs)
    return most + math.log(
        sum(share * math.exp(each - most) for each, share in zip(logs, shares, strict=True))
    )


def _bounds(seen: npt.NDArray[np.float64], alpha: float, most: float) -> tuple[float, float]:
    """Bounds from how often each value was seen. Values are rounded down for the lower one and up for the upper one."""
    wanted, shares = -math.log(alpha), np.log(_capital_for(most))[:, None]
    grid, logs = _logs(most)

    def exceeded(counts: npt.NDArray[np.float64]) -> float:
        mixed = np.logaddexp.reduce(logs @ counts + shares, axis=0)
        return float(grid[mixed >= wanted].max(initial=0.0))

    lower = exceeded(seen)
    # The mean of `most - x` is at most `most - m` where that of x is at least m.
    return lower, max(lower, most - exceeded(seen[::-1]))


@lru_cache(maxsize=2)
def _logs(most: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The means that are tested, and what each value adds to the logarithm of each stake's capital against each:
    [stake, mean, value]."""
    levels = int(most * _LEVELS)
    grid, values = np.arange(1, levels) / _LEVELS, np.arange(levels + 1) / _LEVELS
    stakes = np.array(_STAKES)[:, None, None]
    logs: npt.NDArray[np.float64] = np.log1p(stakes * (values[None, None, :] / grid[None, :, None] - 1))
    return grid, logs
