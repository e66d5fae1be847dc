"""The regions of one action under one scope, each with the evidence of whether the action may answer there.

At first the scope is one region. It is proven as a whole where an engine is good at everything. Where that fails, or a part
is proven first, the region gives way to bands of the predicted quality (router.proving.neighbours), so of nearness to
requests with good outcomes. The bands are fixed beforehand and a prediction is made before its outcome is known, so each
band is tested from the beginning without looking twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from router.guarantee.evidence import Detector, Evidence, Turned
from router.guarantee.ledger import SHARES
from router.proving.fingerprint import Lengths
from router.proving.neighbours import Near, Outcomes
from store.records import Vector

BANDS = (0.0, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Least rank of each part's requests: all, and the best 60 to 10 % by predicted quality, each within the one before."""
_NEARLY = 0.1
"""A request is not among the best, whatever its rank, if less than this below the threshold is expected of it."""
_RANKED, _RANKED_FROM = 500, 50
"""Latest predictions among which one is ranked, and how many there must be: with fewer none is among the best."""
PROBE_SHARE = 0.2
"""If no proof is expected soon, while nothing of the allowance is spent; it falls with what is left."""
_FULL_SHARE_WITHIN = 1000
"""Comparisons still expected up to which every request is wished to be compared."""
_BEFORE_LONG = 500
"""Comparisons still expected up to which one action is proven at a time."""
_DIVIDE_AFTER = 80
"""Comparisons after which the scope is divided where it is not expected to be proven as a whole."""
_GIVE_UP_AFTER = 50
_ANEW_AFTER = 100
_HOPE_AFTER = 10
_BETTER = 4
"""Times as many outcomes to predict from after which parts begin anew."""
_GROWN = 2.0
"""Times as many examples to choose from after which it is tried again."""
_TRY_AFTER, _TRY_BELOW = 20, 0.3
"""Comparisons, and the bound of the mean loss, from which an action may answer before it is proven."""
_IN_DOUBT = 80.0
"""Capital of the alarm above which an open region is compared on in full before it answers again; one bad check suffices."""
_PRAISE = 0.5
_LEAST_WATCHED, _MOVED_IN_DOUBT = 0.05, 100.0
"""Least agreement whose fall is watched for, and the capital of that alarm above which there is doubt."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The evidence of one comparison on an action: at least one of `quality` and `loss`."""

    quality: float | None = None
    """0 to 1: how far the answer says what the reference's does. One less it is the most that can have been lost, as an
    equal answer is as good and another one may be; of a fair sample of the requests."""
    loss: float | None = None
    """-1 to 1: the quality of the reference's answer less that of the action's, where both are known."""
    said: float | None = None
    """A person's word on the reference's answer, or on the one that was served, 0 to 1, if `loss` rests on that. Else
    it rests on a judge, or on the reference's own second answer."""
    length: float | None = None
    """The answer's share of its characters and the reference's together."""
    unit: float = 0.0
    """The number of the conversation that it is of; 0: none."""
    at_s: float = 0.0
    """When it was noted, in seconds since 1970."""

    def values(self) -> Iterator[tuple[str, float]]:
        """By the name of the evidence that it counts for."""
        if self.quality is not None:
            yield AGREEMENT, self.quality
        if self.loss is not None:
            yield (MEASURED if self.said is None else GRADED), 1.0 - self.loss


AGREEMENT, MEASURED, GRADED = "agreement", "measured", "graded"
"""Kinds of evidence: of agreement with the reference; of the difference of both qualities as measured without people; of the
same as graded by people."""
_KIND_ALPHAS = {AGREEMENT: 0.5, MEASURED: 0.1, GRADED: 0.4}
_TELLS_FROM = {MEASURED: 20, GRADED: 1}
"""Comparisons from which on there is something to go by."""
_TOP = {AGREEMENT: 1.0, MEASURED: 2.0, GRADED: 2.0}


class Region:
    """One region: its evidence of each kind, begun anew after a change, each time with less of alpha.

    What follows from the evidence is computed once for all requests until there is more: whatever changes the evidence ends
    with `_read_anew`. Nobody may read what is cached while another thread changes it: see Gate.
    """

    def __init__(self, name: str, threshold: float, alpha: float) -> None:
        self.name = name
        self._threshold = threshold
        self._given_up = False
        self.opened_at = 0
        """Place among the openings under its scope: where several regions are open, the first decides."""
        self.kinds = {
            kind: Evidence(threshold, alpha * share, most=_TOP[kind]) for kind, share in _KIND_ALPHAS.items()
        }
        self._watched = 0.0
        self._watch: Detector | None = None
        """Watches agreement, if that is not what opened it: it may not stay where it was then."""
        self._praised = 0
        """Words of people that were good ones, less the bad ones that counted."""
        self.in_doubt_since_s: float | None = None
        """When the comparison was noted that put it in doubt; None: it is in none."""

    @property
    def agreement(self) -> Evidence:
        """The evidence of agreement with the reference."""
        return self.kinds[AGREEMENT]

    @cached_property
    def evidence(self) -> Evidence:
        """The evidence by which least can be lost: what pages show."""
        return max(self.kinds.values(), key=lambda each: (each.proven, each.bounds()[0]))

    @cached_property
    def most_lost(self) -> float:
        """Anytime-valid upper bound of the mean loss, 0 to 1."""
        return max(0.0, 1.0 - self.evidence.bounds()[0])

    @cached_property
    def agreed(self) -> bool:
        """Tell whether agreement with the reference proves it, or will before anything else does."""
        others = [each for kind, each in self.kinds.items() if kind != AGREEMENT]
        return self.agreement.proven or not any(each.proven for each in others)

    @cached_property
    def open(self) -> bool:
        """Tell if the action may answer here. If people say otherwise, nothing else counts."""
        return any(each.proven for each in self.kinds.values()) and not self.kinds[GRADED].hopeless

    @cached_property
    def in_doubt(self) -> str | None:
        """The kind of evidence that was lately worse, of what proves the action or makes it likely; AGREEMENT, too, if
        answers differ from the reference's more than they did. How much they differ says nothing by itself: where people say
        that they are good they always may."""
        if self._watch is not None and self._watch.alarm > _MOVED_IN_DOUBT:
            return AGREEMENT
        rests_on = [each for each in self.kinds.values() if each.proven]
        if not rests_on and self._watch is None:
            rests_on = [self.evidence]
        kinds = (kind for kind, each in self.kinds.items() if each in rests_on and each.alarm > _IN_DOUBT)
        return next(kinds, None)

    @cached_property
    def may_try(self) -> bool:
        """Tell if the action may answer some requests before it is proven, as it is likely enough to be.

        All that may be lost bounds it: see Gate.
        """
        return self.likely and self.in_doubt is None

    @cached_property
    def likely(self) -> bool:
        """Tell if enough is known that it may be tried, but for doubt."""
        enough = max(each.compared for each in self.kinds.values()) >= _TRY_AFTER
        return enough and self.most_lost <= _TRY_BELOW and self.expected_more is not None

    @cached_property
    def hopeless(self) -> bool:
        """Tell if the action is not good enough here, as far as is known."""
        if any(each.expected_more() is not None for each in self._two_sided()):
            return False
        if self._given_up and not self.open:
            few = self.agreement.compared < _HOPE_AFTER
            return few or self.agreement.expected_more() is None
        return self.agreement.hopeless

    @cached_property
    def expected_more(self) -> int | None:
        """Comparisons still expected until it opens; None: it is not expected to."""
        if self.hopeless or self.kinds[GRADED].hopeless:
            return None
        kinds = [self.agreement, *self._two_sided()]
        return min((more for each in kinds if (more := each.expected_more()) is not None), default=None)

    @cached_property
    def share(self) -> float:
        """The share of requests to compare; where it is open, as long as the ledger says nothing else."""
        if self.open:
            return SHARES[0]
        if self.hopeless or self.agreement.hopeless:
            return PROBE_SHARE
        more = self.agreement.expected_more()
        return PROBE_SHARE if more is None else max(PROBE_SHARE, min(1.0, _FULL_SHARE_WITHIN / max(1, more)))

    def add(self, told: Compared, opening: int = 0) -> Turned[str] | None:
        """Count one comparison; returns what that changed. `opening`: the place of the opening if it opens now."""
        turned = self._added(told, opening)
        self._read_anew()
        if self.in_doubt is None:
            self.in_doubt_since_s = None
        elif self.in_doubt_since_s is None:
            self.in_doubt_since_s = told.at_s
        return turned

    def _read_anew(self) -> None:
        for name in _CACHED:
            self.__dict__.pop(name, None)

    def _added(self, told: Compared, opening: int) -> Turned[str] | None:
        was_open = self.open
        if told.said is not None:
            told = self._balanced(told, praise=told.said >= _PRAISE)
        for kind, value in told.values():
            self.kinds[kind].add(value, told.unit)
        self._read_anew()
        if self._watch is not None and told.quality is not None:
            self._watch.add(told.quality, self._watched)
        elif self._watch is None and (self.open or self.likely):
            self._watch = self._as_it_is()
        if self.open and not was_open:
            self.opened_at = opening
            return self.turned(opened=True)
        if was_open and (not self.open or self._changed()):
            closed = self.turned(opened=False)
            self.restart(given_up=False)
            return closed
        if not was_open:
            self._maybe_give_up()
        return None

    def _balanced(self, told: Compared, *, praise: bool) -> Compared:
        """Count a person's word; without its loss if more complaints than praise came so far."""
        if not praise and self._praised <= 0:
            # Who only complains tells nothing of the requests that went well.
            return replace(told, loss=None)
        self._praised += 1 if praise else -1
        return told

    def _maybe_give_up(self) -> None:
        """Begin anew if nothing is to be expected any more, and a new beginning is worth its price."""
        if any(each.expected_more() is not None for each in self._two_sided()):
            return
        if self.agreement.compared >= _GIVE_UP_AFTER and self._poor():
            self._given_up = self.agreement.hopeless
            self.agreement.begin_anew()

    def restart(self, *, given_up: bool) -> None:
        """Forget the evidence and begin anew. `given_up`: until there is reason for hope."""
        self._given_up = given_up
        self._watch = None
        for evidence in self.kinds.values():
            if evidence.compared:
                evidence.begin_anew()
        self._read_anew()

    def reconsider(self) -> None:
        """Begin anew what enough comparisons say will not be proven; what may yet be proven goes on."""
        if self.open:
            return
        self._given_up = False
        for evidence in self.kinds.values():
            if evidence.compared >= _TRY_AFTER and evidence.expected_more() is None:
                evidence.begin_anew()
        self._read_anew()

    def _two_sided(self) -> list[Evidence]:
        """The evidence beside agreement, as far as there is any to go by: one word of a person's is."""
        return [each for kind, least in _TELLS_FROM.items() if (each := self.kinds[kind]).compared >= least]

    def _changed(self) -> bool:
        fallen = self._watch is not None and self._watch.found
        return fallen or any(each.changed for each in self.kinds.values())

    def _as_it_is(self) -> Detector | None:
        """Return a detector of answers that agree less than they did, if agreement is not what proves the action."""
        if self.agreement.compared < _TRY_AFTER or self.agreement.expected_more() is not None:
            return None
        self._watched = max(_LEAST_WATCHED, min(self._threshold, self.agreement.bounds()[0]))
        return Detector()

    def _poor(self) -> bool:
        """Tell if a new beginning is worth its price: predictions get better, and so may what is expected of a band."""
        evidence = self.agreement
        more = evidence.expected_more()
        return evidence.hopeless or (
            evidence.compared >= _ANEW_AFTER * 2 ** min(4, evidence.begun)
            and (more is None or more > 4 * evidence.compared)
        )

    def turned(self, *, opened: bool) -> Turned[str]:
        """Return what is said of its opening or closing."""
        return Turned(self.name, opened, self.evidence.compared, *self.evidence.bounds())


_CACHED = tuple(name for name, each in vars(Region).items() if isinstance(each, cached_property))


class Regions:
    """All regions of one action under one scope, the largest first."""

    def __init__(self, threshold: float, alpha: float) -> None:
        """`threshold`: the mean quality to exceed, 0 to 1. `alpha`: chance that a region ever opens wrongly."""
        self.bands = tuple(
            Region(f"best {round(100 * (1 - least))} %" if least else "all", threshold, alpha)
            for least in BANDS
        )
        self.whole = self.bands[0]
        self._least = threshold - _NEARLY
        self.divided = False
        """True if parts decide in place of the whole."""
        self._outcomes = Outcomes()
        self._ranked: deque[float] = deque(maxlen=_RANKED)
        self._sorted: list[float] = []
        self._better_from = _DIVIDE_AFTER
        self._bank = 0.0
        self._lengths = Lengths()

    def __iter__(self) -> Iterator[Region]:
        return iter(self.bands if self.divided else (self.whole,))

    @property
    def promising(self) -> bool:
        """Tell if the whole is expected to be proven before long."""
        more = self.whole.expected_more
        return not self.divided and not self.whole.open and more is not None and more <= _BEFORE_LONG

    def rank(self, vector: Vector | None, near: Near) -> float:
        """The share, 0 to 1, of the latest requests of which no more was expected than of this one. 0 for one whose
        embedding is not known: it is in the whole alone."""
        if vector is None:
            return 0.0
        predicted = self._outcomes.expected(vector, near)
        rank = 0.0
        if predicted >= self._least and len(self._sorted) >= _RANKED_FROM:
            # Equals are in the middle of their run: where all is expected to be alike none is among the best.
            least, most = bisect_left(self._sorted, predicted), bisect_right(self._sorted, predicted)
            rank = min(0.999, (least + most) / 2 / len(self._sorted))
        if len(self._ranked) == _RANKED:
            del self._sorted[bisect_left(self._sorted, self._ranked[0])]
        self._ranked.append(predicted)
        insort(self._sorted, predicted)
        return rank

    def of(self, rank: float) -> Region:
        """The region that decides for a request of this rank: the largest that is open, else the one to be proven."""
        within = self._within(rank)
        opened = next((band for band in within if band.open), None)
        return opened or (within[-1] if self.divided else self.whole)

    def share(self, rank: float) -> float:
        """The share of such requests to compare: the same for all as long as the scope is one region, so that what is
        compared is a fair sample of it."""
        if self.of(rank).open:
            return self.of(rank).share
        return max(band.share for band in (self._within(rank) if self.divided else self.bands))

    def add(
        self, rank: float, vector: Vector | None, near: Near, told: Compared, opening: int = 0
    ) -> Turned[str] | None:
        """Count one comparison of a request with the rank that it had before; returns what that changed."""
        if told.quality is not None and vector is not None:
            self._outcomes.add(vector, near, told.quality)
            self._predict_better()
        if told.length is not None and self._lengths.changed(told.length) and (closed := self.close()):
            return closed
        turned = None
        decided = False
        for band in self._within(rank):
            found = band.add(told, opening)
            # What changes within a region that decides already changes nothing.
            turned = turned or (None if decided else found)
            decided = decided or band.open
        if turned is not None and not turned.opened and turned.way == self.whole.name:
            self.close()
        unlikely = self.whole.agreement.compared >= _DIVIDE_AFTER and self.whole.expected_more is None
        part_open = any(band.open for band in self.bands[1:])
        self.divided = not self.whole.open and (part_open or self.whole.hopeless or unlikely)
        return turned

    def close(self) -> Turned[str] | None:
        """Begin anew, as the engine is not what it was: nothing known of it before still holds. Returns the closing of the
        largest region that was open, if one was."""
        closed = next((band.turned(opened=False) for band in self.bands if band.open), None)
        self._outcomes.clear()
        self._better_from = _DIVIDE_AFTER
        self._lengths = Lengths()
        for band in self.bands:
            band.restart(given_up=False)
        self.divided = False
        return closed

    def _predict_better(self) -> None:
        """Begin parts anew with four times as many outcomes to predict from: what the best were before says little of those
        that are found now. At every doubling it would cost more of alpha than better predictions are worth."""
        if len(self._outcomes) < self._better_from:
            return
        self._better_from *= _BETTER
        for band in self.bands[1:]:
            if not band.open:
                band.restart(given_up=False)

    def grown(self, bank: float) -> None:
        """The examples are chosen from so many. With twice as many as before they are better ones, and what was not expected
        to be proven may be."""
        if bank < _GROWN * self._bank:
            return
        first, self._bank = not self._bank, bank
        if first:
            return
        for region in self.bands:
            region.reconsider()
        self.divided = self.divided and any(band.open for band in self.bands)

    def restart(self, *, proven: bool) -> None:
        """Begin anew if nothing is proven yet, and with `proven` where something is: the requests to decide on are
        others from now on."""
        for region in self.bands:
            if region.evidence.compared and (proven or not region.open):
                region.restart(given_up=region.hopeless)

    def _within(self, rank: float) -> tuple[Region, ...]:
        """The regions that a request of this rank is in, the largest first."""
        return self.bands[: sum(rank >= least for least in BANDS)]
