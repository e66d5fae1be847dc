"""Decides which requests a student answers, so that at least `1 - max_loss` of a task's answers are the teacher's.

**What is promised** is kept by a ledger (router.guarantee.ledger): before the student answers, what its answers may have
lost must fit into `max_loss` of the task's requests so far. Where the student would answer, the teacher is asked instead
with a known probability; that coin is all that the bound rests on. It holds whatever retraining, a change of traffic or
a miscalibrated version does.

**Which requests** is a matter of use alone. The student answers the most confident ones, as many as are expected to lose
`_SPENT` times the ledger's present room per request. Expected are calibrated confidences, corrected by what the teacher's
answers to the latest requests showed; those that were asked by a coin count with its inverse as their weight. So a student
that overrates itself answers less, and none that is wrong uses up the room before its checks tell.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from router.guarantee.evidence import Turned
from router.guarantee.ledger import Ledger

SHARES = (0.34, 0.17, 0.1)
"""As router.guarantee.ledger.SHARES: a check costs no second answer here, so the first ones are more."""
_ROOMS = (25.0, 80.0)
ALPHA = 0.05
"""Chance, per task, that more than `max_loss` is ever lost."""
LEAST_CONFIDENCE = 0.5
"""The least confidence of a student's answer, whatever there is room for."""
_RECENT = 600
"""Latest requests from which losses are expected."""
_FEWEST = 20
"""Comparisons before which it answers nothing."""
_SETTLED_EVERY = 10
_SPENT, _MOST_SPENT = 8.0, 2.0
"""Times the room per request that answers are expected to lose, and times `max_loss`, at most."""
_REOPENS = 3.0
"""Room from which on it answers, if it did not: less would be used up at once."""
_SPREAD_OVER = 100
"""Requests over which the room of the first few is spread."""
_PRIOR_LOST = 0.75
"""Lost answers, expected and seen, before any is known."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a task's student may do."""

    threshold: float | None = None
    """Least confidence with which it answers; None: it answers nothing."""
    check_share: float = 1.0
    """Probability, 0 to 1, with which the teacher is asked where the student would answer."""
    compared: int = 0
    """The student's predictions that the teacher's answer was compared with."""
    lower: float = 0.0
    """Anytime-valid lower bound of the share of the task's answers that are the teacher's, 0 to 1."""
    room: float = 0.0
    """How many more answers may be lost."""
    waits: int = 0
    """Requests until there is room for an answer again; 0: there is."""


@dataclass(frozen=True, slots=True)
class _Seen:
    confidence: float
    agreed: bool | None
    weight: float


_NONE = _Seen(-1.0, None, 0.0)


class Promise:
    """The account of one task's student. It follows from the requests in their order alone."""

    def __init__(self, max_loss: float) -> None:
        """`max_loss`: largest share of the task's requests, 0 to 1, whose answer may differ from the teacher's."""
        self._max_loss = max_loss
        self._ledger = Ledger(max_loss, ALPHA, SHARES, _ROOMS)
        self._recent: deque[_Seen] = deque(maxlen=_RECENT)
        self._compared = 0
        self.by = self._ledger.by % 2**32
        """Names this worker where it decides."""
        self.standing = Standing()

    def request(self) -> None:
        """Count one of the task's requests, whoever answers it."""
        self._ledger.asked += 1

    def add(
        self, confidence: float, agreed: bool | None, share: float | None = None, fair_share: float = 1.0
    ) -> Turned[float] | None:
        """Count what the student predicted for a request. `agreed`: whether the teacher gave the same label; None: it was
        not asked, or not for a fair comparison. `share`: with which probability it was, where the student was to answer;
        else None, and it was asked with `fair_share`. Returns whether the student answers now, if that changed."""
        if share is not None:
            self._ledger.settle(share, None if agreed is None else float(not agreed))
        self._compared += agreed is not None
        self._recent.append(_Seen(confidence, agreed, 1.0 / (share or fair_share)))
        if self._ledger.asked % _SETTLED_EVERY and self._compared >= _FEWEST:
            return None
        return self._settled()

    def to_answer(self, confidence: float, pending: int = 0) -> float | None:
        """The probability with which the teacher is to be asked instead of the student; None where the student is not to
        answer. `pending`: its answers that `add` was not told yet; they are taken for lost."""
        least = self.standing.threshold
        if least is None or confidence < least or self._ledger.room() - pending < 1.0:
            return None
        return self.standing.check_share

    def corrected(self, confidence: float) -> Turned[float] | None:
        """Count that a person found the student's label of one request wrong: a lost answer, where it answers such."""
        if self.standing.threshold is None or confidence < self.standing.threshold:
            return None
        self._ledger.assume(1.0)
        self._recent.append(_Seen(confidence, False, 1.0))
        return self._settled()

    def _settled(self) -> Turned[float] | None:
        room, before = self._ledger.room(), self.standing
        threshold = self._threshold(room)
        lost = self._ledger.lost() / max(1, self._ledger.asked)
        self.standing = Standing(
            threshold,
            self._ledger.share() if threshold is not None else 1.0,
            self._compared,
            max(0.0, 1.0 - lost),
            room,
            max(0, math.ceil((1.0 - room) / self._max_loss)) if self._max_loss else 0,
        )
        if (before.threshold is None) == (threshold is None):
            return None
        way = threshold if threshold is not None else before.threshold or 0.0
        return Turned(way, threshold is not None, self._compared, self.standing.lower, 1.0)

    def _threshold(self, room: float) -> float | None:
        """The least confidence of the most confident requests that are expected to lose what may be spent."""
        least = 1.0 if self.standing.threshold is not None else _REOPENS
        if room < least or self._compared < _FEWEST:
            return None
        share = _SPENT * room / max(self._ledger.asked, _SPREAD_OVER)
        wanted = min(_MOST_SPENT * self._max_loss, share) * len(self._recent)
        expected = told = lost = 0.0
        found = None
        ordered = sorted(self._recent, key=lambda each: -each.confidence)
        for seen, after in zip(ordered, [*ordered[1:], _NONE], strict=True):
            if seen.confidence < LEAST_CONFIDENCE:
                break
            expected += 1.0 - seen.confidence
            if seen.agreed is not None:
                told += seen.weight * (1.0 - seen.confidence)
                lost += seen.weight * (not seen.agreed)
            fits = expected * (lost + _PRIOR_LOST) / (told + _PRIOR_LOST) <= wanted
            if fits and after.confidence < seen.confidence:
                found = seen.confidence
        return found
