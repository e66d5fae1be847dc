"""The regions of one action under one scope, each with the evidence of whether the action may answer there.

At first the scope is one region. It is proven as a whole where an engine is good at everything. Where that fails, or a part
is proven first, the region gives way to bands of the predicted quality (router.proving.neighbours), so of nearness to
requests with good outcomes. The bands are fixed beforehand and a prediction is made before its outcome is known, so each
band is tested from the beginning without looking twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from router.proving.bounds import Evidence
from router.proving.neighbours import Near, Outcomes
from store.records import Vector

BANDS = (0.0, 0.9, 0.96)
"""Least predicted quality of each band."""
_WHOLE_ALPHA = 0.6
"""Share of alpha for the undivided scope."""
_BAND_ALPHAS = (0.04, 0.08, 0.28)
"""Shares of the bands: most for the best, which is where proof is to be had."""
_PROBE_SHARE = 0.02
_LEAST_SHARE, _UNCLEAR_SHARE = 0.2, 0.05
_FULL_SHARE_WITHIN = 1000
"""Comparisons still expected up to which every request is wished to be compared."""
_CHECK_SHARE, _CHECK_FLOOR, _CHECK_HALVED_BY = 0.15, 0.1, 30
_BEFORE_LONG = 500
"""Comparisons still expected up to which one action is proven at a time."""
_OVERDUE, _OVERDUE_S = 5, 2.0
"""Expected checks, and seconds, without an outcome, after which an open region answers nobody until there is one."""
_DIVIDE_AFTER = 80
"""Comparisons after which the scope is divided where it is not expected to be proven as a whole."""
_GIVE_UP_AFTER = 50
_ANEW_AFTER = 100
_HOPE_AFTER = 10


def spent(number: int) -> float:
    """Share of alpha for the `number`-th of a series without end, from 0: they add up to 1."""
    return 6 / (math.pi * (number + 1)) ** 2


@dataclass(frozen=True, slots=True)
class Turned:
    """A region that was opened or closed."""

    region: str
    opened: bool
    compared: int
    lower: float
    upper: float


class Region:
    """One region: its evidence, begun anew after a change, each time with less of alpha."""

    def __init__(self, name: str, threshold: float, alpha: float) -> None:
        self.name = name
        self._threshold = threshold
        self._alpha = alpha
        self._begun = 0
        self._given_up = False
        self._open_since = 0
        self.opened_at = 0
        """Place among the openings under its scope: where several regions are open, the first decides."""
        self.evidence = self._fresh()
        self._wished = 0.0
        self._told_at = 0.0

    def wish(self, share: float) -> None:
        """Another request was to be compared with this probability."""
        self._wished += share

    def told(self, now: float) -> None:
        """An outcome came at this time, by a clock that only runs forward."""
        self._wished, self._told_at = 0.0, now

    def overdue(self, now: float) -> bool:
        """Whether checks that must have been made told nothing: then nobody would notice a change."""
        return self._wished > _OVERDUE and now - self._told_at > _OVERDUE_S

    @property
    def open(self) -> bool:
        """Whether the action may answer here."""
        return self.evidence.proven

    @property
    def hopeless(self) -> bool:
        """Whether the action is not good enough here, as far as is known."""
        if self._given_up and not self.open:
            few = self.evidence.compared < _HOPE_AFTER
            return few or self.evidence.expected_more() is None
        return self.evidence.hopeless

    @property
    def expected_more(self) -> int | None:
        """Comparisons still expected until it opens; None: it is not expected to."""
        return None if self.hopeless else self.evidence.expected_more()

    @property
    def share(self) -> float:
        """The share of requests to compare."""
        if self.open:
            checks = self.evidence.compared - self._open_since
            return max(_CHECK_FLOOR, _CHECK_SHARE * _CHECK_HALVED_BY / (_CHECK_HALVED_BY + checks))
        if self.hopeless:
            return _PROBE_SHARE
        more = self.evidence.expected_more()
        return (
            _UNCLEAR_SHARE if more is None else max(_LEAST_SHARE, min(1.0, _FULL_SHARE_WITHIN / max(1, more)))
        )

    def add(self, quality: float, opening: int = 0) -> Turned | None:
        """Count one comparison; returns what that changed. `opening`: the place of the opening if it opens now."""
        was_open = self.open
        self.evidence.add(quality)
        if self.open and not was_open:
            self._open_since = self.evidence.compared
            self.opened_at = opening
            return self._turned(opened=True)
        if was_open and self.evidence.changed:
            closed = self._turned(opened=False)
            self.restart(given_up=False)
            return closed
        if not was_open and self.evidence.compared >= _GIVE_UP_AFTER and self._poor():
            self.restart(given_up=self.evidence.hopeless)
        return None

    def restart(self, *, given_up: bool) -> None:
        """Forget the evidence and begin anew. `given_up`: until there is reason for hope."""
        self._begun += 1
        self._given_up = given_up
        self.evidence = self._fresh()

    def _poor(self) -> bool:
        """Whether a new beginning is worth its price: predictions get better, and so may what is expected of a band."""
        more = self.evidence.expected_more()
        return self.evidence.hopeless or (
            self.evidence.compared >= _ANEW_AFTER * 2 ** min(4, self._begun)
            and (more is None or more > 4 * self.evidence.compared)
        )

    def _fresh(self) -> Evidence:
        return Evidence(self._threshold, self._alpha * spent(self._begun))

    def _turned(self, *, opened: bool) -> Turned:
        return Turned(self.name, opened, self.evidence.compared, *self.evidence.bounds())


class Regions:
    """All regions of one action under one scope."""

    def __init__(self, threshold: float, alpha: float) -> None:
        """`threshold`: the mean quality to exceed, 0 to 1. `alpha`: chance that any region ever opens wrongly."""
        self.whole = Region("all", threshold, alpha * _WHOLE_ALPHA)
        self.divided = False
        """Whether bands decide in place of the whole."""
        self.bands = tuple(
            Region(f"from {least:g}", threshold, alpha * share)
            for least, share in zip(BANDS, _BAND_ALPHAS, strict=True)
        )
        self._outcomes = Outcomes()

    def __iter__(self) -> Iterator[Region]:
        return iter(self.bands if self.divided else (self.whole,))

    @property
    def promising(self) -> bool:
        """Whether the whole is expected to be proven before long."""
        more = self.whole.expected_more
        return not self.divided and not self.whole.open and more is not None and more <= _BEFORE_LONG

    def predicted(self, vector: Vector, near: Near) -> float:
        """The expected quality of the action for a request."""
        return self._outcomes.expected(vector, near)

    def of(self, predicted: float) -> Region:
        """The region that decides for a request with this predicted quality."""
        return self._band(predicted) if self.divided else self.whole

    def share(self, predicted: float) -> float:
        """The share of such requests to compare: the same for all as long as the scope is one region, so that what is
        compared is a fair sample of it."""
        if self.divided or self.whole.open:
            return self.of(predicted).share
        return max(self.whole.share, *(band.share for band in self.bands))

    def add(
        self, predicted: float, vector: Vector, near: Near, quality: float, opening: int = 0
    ) -> Turned | None:
        """Count one comparison of a request with what was predicted of it before; returns what that changed."""
        self._outcomes.add(vector, near, quality)
        turned = self._band(predicted).add(quality, opening)
        if self.divided:
            return turned
        was_open = self.whole.open
        by_whole = self.whole.add(quality, opening)
        if by_whole is not None and not by_whole.opened:
            # The engine is not what it was: nothing known of it before still holds.
            self._outcomes.clear()
            for band in self.bands:
                band.restart(given_up=False)
            return by_whole
        if was_open or by_whole is not None:
            return by_whole
        unlikely = self.whole.evidence.compared >= _DIVIDE_AFTER and self.whole.expected_more is None
        self.divided = turned is not None or self.whole.hopeless or unlikely
        return turned

    def restart(self, *, proven: bool) -> None:
        """Begin anew where nothing is proven yet, and with `proven` where something is: the requests to decide on are
        others from now on."""
        for region in (self.whole, *self.bands):
            if region.evidence.compared and (proven or not region.open):
                region.restart(given_up=region.hopeless)

    def _band(self, predicted: float) -> Region:
        return self.bands[sum(predicted >= least for least in BANDS) - 1]
