"""Proves how far a student may answer, so that at least `1 - max_loss` of a task's answers are the teacher's.

**What is tested.** `LOSSES` are nested ways to let the student answer: the most confident requests, as many as are
expected to lose a given multiple of `max_loss` of all the task's requests, by the latest calibrated confidences. A
stricter one answers fewer. Of each it is tested whether it loses less than `max_loss` (router.guarantee.evidence), in a
fixed order from the strictest: a laxer one is believed only once those before it are. No alpha is divided over them
then: to be wrong one must first be wrong about the strictest that does not hold (fixed-sequence testing). A request that
a way leaves to the teacher counts as equal.

**Fair comparisons.** Where the student would answer, the teacher is asked with the probability `Standing.check_share`;
where it would not, the teacher's answer costs nothing extra, and counts with that share as its weight. What is checked the
teacher answers, CHECK_FLOOR of it at least, so a way may lose `max_loss / (1 - CHECK_FLOOR)` by itself.

**Retraining.** A hypothesis says: at no comparison so far was the mean, given all that was known before, above the
threshold. Which version answers is known before, so evidence is carried over retraining. It proves that versions so far
were good enough, not that the next is. What makes that likely: ways are defined by expected losses, which mean the same
for every version as far as confidences are calibrated; a version that is worse on the newest labels is not accepted; and
the sample goes on. If the loss rises, an e-detector takes the way back: down to the strictest that is not in doubt, or,
where all are, to none until a later version is there. What begins anew gets less of alpha (router.guarantee.evidence.spent).

**Share of checks.** It falls with the root of the number of requests, so that what checking costs and what it may win
grow alike, to CHECK_FLOOR; it is at the floor at once if no laxer way is expected to be proven within as many
requests as came so far.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import accumulate

from router.guarantee.checks import CHECK_FLOOR, check_share
from router.guarantee.evidence import Evidence, Turned

LOSSES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.5)
"""Expected losses of the ways that are tested, as multiples of `max_loss`, strictest first."""
ALPHA = 0.05
"""Chance, per task, that a way is ever opened wrongly."""
_CHECK_ROOT = 15.0
_CHECK_FIRST = 0.2
LEAST_CONFIDENCE = 0.6
"""The least confidence of a student's answer, whatever is proven: a new version may be much surer than the last."""
_RECENT = 300
"""Latest confidences from which expected losses are computed."""
_SETTLED_EVERY = 10
_ANEW_AFTER = 50
_FALSE_ALARM_AFTER = 5000.0
"""Each check weighs as ten comparisons or more of the rest, so the alarm of regions would come too early."""
_IN_DOUBT = 50.0


@dataclass(frozen=True, slots=True)
class Standing:
    """The proof of a task's student."""

    threshold: float | None = None
    """Least confidence with which it answers; None: it answers nothing."""
    check_share: float = 1.0
    """Probability, 0 to 1, with which the teacher is asked where the student would answer."""
    compared: int = 0
    """Comparisons that the bounds rest on."""
    lower: float = 0.0
    """Anytime-valid lower bound of the task's agreement with the teacher, under the way that is open or the first, 0
    to 1."""
    upper: float = 1.0
    broken_version: int | None = None
    """The version that was stopped, if no later one is there yet."""
    expected_more: int | None = None
    """Comparisons still expected until it answers; None: it is not expected to."""


class Promise:
    """The proofs of one task's student. They follow from the requests in their order alone."""

    def __init__(self, max_loss: float, rest_share: float = 1.0) -> None:
        """`max_loss`: largest share of the task's requests, 0 to 1, whose answer may differ from the teacher's.
        `rest_share`: with which probability there is a fair comparison where the student would not answer, as far as
        `add` says nothing else."""
        self._rest_share = rest_share
        self._max_loss = max_loss
        wanted = 1 - max_loss / (1 - CHECK_FLOOR)
        self._ways = [Evidence(wanted, ALPHA, _FALSE_ALARM_AFTER) for _ in LOSSES]
        self._thresholds = [math.inf] * len(LOSSES)
        """Least confidence with which the student answers, by way."""
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._seen = 0
        self._open = -1
        """Place of the laxest way that is open; -1: none."""
        self._checks = 0
        self._broken: int | None = None
        self.standing = Standing()

    def add(
        self, confidence: float, version: int, agreed: bool | None, rest_share: float | None = None
    ) -> Turned[float] | None:
        """Count one request that the student predicted. `confidence`: 0 if it was not its to answer. `agreed`:
        whether the teacher gave the same label, for a fair comparison; None for any other request. `rest_share`: what it was
        when the request was answered."""
        if self._broken is not None:
            if version <= self._broken:
                return None
            self._broken = None
        turned = None
        if agreed is not None and self._seen >= _SETTLED_EVERY:
            turned = self._compared(confidence, version, agreed, rest_share or self._rest_share)
        self._seen += 1
        self._recent.append(confidence)
        if turned is not None or self._seen % _SETTLED_EVERY == 0:
            self._settle()
        return turned

    def corrected(self, confidence: float, version: int) -> Turned[float] | None:
        """Count that a person found the student's label of one request wrong.

        Nobody drew it, so it is no fair comparison: it stands for itself alone, and only ever speaks against the ways
        under which the student answers it. That keeps every bound valid.
        """
        if self._broken is not None and version <= self._broken:
            return None
        share = min(self.standing.check_share, self._rest_share) if self._open >= 0 else self._rest_share
        for way, threshold in zip(self._ways, self._thresholds, strict=True):
            if confidence >= threshold:
                _count(way, 0.0, share)
        if self._open < 0 or not self._ways[self._open].changed:
            return None
        turned = self._taken_back(version)
        self._settle()
        return turned

    def _compared(
        self, confidence: float, version: int, agreed: bool, rest_share: float
    ) -> Turned[float] | None:
        before = self._open
        served = before >= 0 and confidence >= self._thresholds[before]
        served_share = self.standing.check_share if before >= 0 else rest_share
        weight = min(served_share, rest_share) / (served_share if served else rest_share)
        self._checks += served
        for way, threshold in zip(self._ways, self._thresholds, strict=True):
            _count(way, float(agreed or confidence < threshold), weight)
        if before >= 0 and self._ways[before].changed:
            return self._taken_back(version)
        while self._open + 1 < len(self._ways) and self._ways[self._open + 1].proven:
            self._open += 1
        if self._open == before:
            return None
        self._checks = 0
        return self._turned(self._open, opened=True)

    def _taken_back(self, version: int) -> Turned[float]:
        turned = self._turned(self._open, opened=False)
        self._open -= 1
        while self._open >= 0 and self._ways[self._open].alarm > _IN_DOUBT:
            self._open -= 1
        for way in self._ways[self._open + 1 :]:
            way.begin_anew()
        self._checks = 0
        self._broken = version if self._open < 0 else None
        return turned

    def _settle(self) -> None:
        ordered = sorted(self._recent, reverse=True)
        lost = list(accumulate(1 - confidence for confidence in ordered))
        for place, loss in enumerate(LOSSES):
            count = bisect_right(lost, loss * self._max_loss * len(ordered))
            self._thresholds[place] = max(LEAST_CONFIDENCE, ordered[count - 1]) if count else math.inf
        evidence = self._ways[max(0, self._open)]
        threshold = self._thresholds[self._open] if self._open >= 0 else None
        self.standing = Standing(
            threshold,
            self._check_share(),
            evidence.compared,
            *evidence.bounds(),
            self._broken,
            None if self._broken is not None else evidence.expected_more(),
        )

    def _check_share(self) -> float:
        if self._open < 0:
            return 1.0
        least = check_share(_CHECK_FIRST, self._checks)
        share = min(1.0, _CHECK_ROOT / math.sqrt(self._seen))
        if share <= least or self._open + 1 == len(self._ways):
            return least
        more = self._ways[self._open + 1].expected_more()
        return share if more is not None and more <= share * self._seen else least

    def _turned(self, place: int, *, opened: bool) -> Turned[float]:
        way = self._ways[place]
        return Turned(self._thresholds[place], opened, way.compared, *way.bounds())


def _count(way: Evidence, quality: float, weight: float) -> None:
    """Count a comparison, and begin a way anew that gets nowhere."""
    way.add(quality, weight)
    if way.proven or way.compared < _ANEW_AFTER * 2**way.begun:
        return
    if way.hopeless or way.worthless:
        way.begin_anew()
