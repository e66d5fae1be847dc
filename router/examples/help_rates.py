"""How often a tenant's bank holds what is asked for: told from the scorer's own predictions, which are then corrected by it.

A scorer's shares are right for banks like the one it learnt from. Of a bank about other things it promises too much: each
promise is small, and nobody asks it to be right in one of a thousand requests. But promises that are always small say
themselves that little is there. From the predictions of a stream the share of requests that find help is estimated, and the
predictions are brought to it: their odds are multiplied by the odds of that share over those where the scorer learnt
(Saerens, Latinne, Decaestecker 2002, "Adjusting the Outputs of a Classifier to New a Priori Probabilities: A Simple
Procedure", sections 2.2 and 2.3; their expectation maximisation, one request at a time).

Two shares: of requests that name what no candidate mentions (strangers), and of all. Strangers are helped by examples of a
rule, which one bank has and another has not; what is mentioned mostly helps. No label is needed, and predictions are only
ever lowered, twentyfold at most: where scorers learn, help may be rarer than in the worlds that these figures are from, and
what is promised for sure must be sent there, too.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from cachetools import LRUCache

Effects = list[tuple[float, float]]
"""Of each candidate, the shares mended and spoilt (router.plan.Candidate.effect)."""

LATELY = 200
"""Requests from which a share is estimated: older ones fade."""
LEAST_RATIO = 0.05
"""By which odds are multiplied at the least: what is promised for sure is sent in any bank, and a bank that learns what is
asked is noticed."""


@dataclass(frozen=True, slots=True)
class Share:
    """What is assumed of a share of requests."""

    learnt: float
    """Where scorers learn: of more than this, nothing is corrected."""
    assumed: float
    """Before anything was seen, ..."""
    worth: int
    """... as if that had been seen of so many requests."""


STRANGERS = Share(learnt=0.07, assumed=0.02, worth=5)
"""0.03 to 0.10 in the worlds of benchmarks/helpfulness; assumed is what a bank that helps no stranger gets no harm by."""
EVERYBODY = Share(learnt=0.1, assumed=0.1, worth=10)
"""0.6 and more in these worlds, 0.03 where nothing is relevant. A scorer that learnt where help is rarer than there is right
as it is: only what is rarer than any scorer is likely to have learnt from is another bank."""


class HelpRates:
    """The shares of each tenant, in bounded memory. Safe to use from several threads; each worker counts for itself.

    Kept by the scorer's version, too: another one promises otherwise.
    """

    def __init__(self, tenants: int = 10_000) -> None:
        """`tenants`: those seen most recently are remembered. Raises ValueError for less than one."""
        if tenants < 1:
            raise ValueError("tenants must be at least 1")
        self._rates: LRUCache[tuple[str, str], tuple[_Rate, _Rate]] = LRUCache(tenants)
        self._lock = threading.Lock()

    def corrected(self, tenant: str, scorer: str, effects: Effects, *, familiar: bool) -> Effects:
        """A request's predictions, brought to how often this tenant's requests were helped until now; and counts them.

        `scorer`: the version that made them. `familiar`: whether a candidate mentions what is named
        (router.examples.features.names_met).
        """
        if not effects:
            return effects
        with self._lock:
            rates = self._rates.get((tenant, scorer))
            if rates is None:
                rates = self._rates[tenant, scorer] = (_Rate(STRANGERS), _Rate(EVERYBODY))
            strangers, everybody = rates
            ratio = (everybody if familiar else strangers).odds_ratio()
            if ratio < 1.0:
                effects = [(helps * ratio / (helps * ratio + 1.0 - helps), harms) for helps, harms in effects]
            best = max(effects)[0]
            everybody.saw(best)
            if not familiar:
                strangers.saw(best)
        return effects


class _Rate:
    """A mean of what was seen lately. The caller holds the lock."""

    __slots__ = ("_count", "_mean", "_share")

    def __init__(self, share: Share) -> None:
        self._share, self._mean, self._count = share, share.assumed, share.worth

    def odds_ratio(self) -> float:
        """Odds of the share now over those where scorers learn, LEAST_RATIO to 1."""
        now, learnt = self._mean, self._share.learnt
        return 1.0 if now >= learnt else max(LEAST_RATIO, now * (1.0 - learnt) / ((1.0 - now) * learnt))

    def saw(self, helped: float) -> None:
        """One more request, with its probability of being helped."""
        self._count = min(LATELY, self._count + 1)
        self._mean += (helped - self._mean) / self._count
