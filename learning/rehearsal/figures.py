"""Sums a rehearsal up: a row for each way, the offloaded share at each loss, and the verdict in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from learning.evaluation.intervals import Interval, Ratio, bootstrap
from learning.rehearsal.arms import ALONE, COPY, Rehearsed, Tried
from learning.rehearsal.foreseen import Foreseen
from learning.rehearsal.students import STUDENT

Floats = npt.NDArray[np.float64]

_RESAMPLES = 1000
_LEVEL = 0.95
_MOST = 0.7
"""Share from which on it is worth while to say at which loss there would be so much."""


@dataclass(frozen=True, slots=True)
class Row:
    """The results of one way."""

    way: str
    questions: int
    quality: float
    within: Interval
    """95 %, of the quality."""
    more: float
    """Quality above the small engine's alone, on the same questions."""
    more_within: Interval
    usd_per_1000: float
    median_s: float


def rows(found: Rehearsed) -> list[Row]:
    """A row for each way. Raises ValueError if no question was answered."""
    made: list[Row] = []
    for way, all_tried in found.ways.items():
        both = [(one, a) for one, a in zip(all_tried, found.ways[ALONE], strict=True) if one and a]
        tried = [one for one, _ in both]
        quality, alone = _qualities(tried), _qualities([a for _, a in both])
        ones = np.ones_like(alone)
        (mean, within), (more, more_within) = bootstrap(
            [Ratio(quality, ones), Ratio(quality - alone, ones)], level=_LEVEL, resamples=_RESAMPLES
        )
        bounded = Interval(max(0.0, within.low), min(1.0, within.high))
        usd = 1000.0 * sum(one.usd for one in tried) / len(tried)
        median_s = float(np.median([one.seconds for one in tried]))
        made.append(Row(way, len(tried), mean, bounded, more, more_within, usd, median_s))
    return made


@dataclass(frozen=True, slots=True)
class Offload:
    """The requests that one way would take over under one bound of the loss over all requests."""

    way: str
    max_loss: float
    share: float
    """The share of the questions, the likeliest first, as far as their loss is below the bound."""
    within: Interval
    """95 % of the resamples of the questions."""
    saved: float
    """The saved share of what the recorded answers cost; 0 if nothing has a price."""


def offload(found: Rehearsed, way: str, max_loss: float, *, seed: int = 0) -> Offload:
    """See Offload. Those that a way is surest of come first, or those most like a past request. A prediction from these
    questions, not a proof: a gateway has to see as much for itself."""
    order = _order(found, way)
    loss = 1.0 - _qualities(found.ways[way])[order]
    count = len(loss)
    draw = np.random.default_rng(seed)
    shares = [_share(loss[np.sort(draw.integers(0, count, count))], max_loss) for _ in range(_RESAMPLES)]
    share = _share(loss, max_loss)
    usd = sum(one.usd for n in order[: round(share * count)] if (one := found.ways[way][n]))
    saved = (share * found.large_usd - usd) / found.large_usd if found.large_usd else 0.0
    low, high = np.quantile(shares, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Offload(way, max_loss, share, Interval(float(low), float(high)), saved)


def best(found: Rehearsed) -> str:
    """The way of the small engine that comes closest to the recorded answers."""
    asked = [name for name in found.ways if name not in (COPY, STUDENT)]
    return max(asked, key=lambda name: float(_qualities(found.ways[name]).mean()))


def sentence(found: Rehearsed, max_loss: float) -> str:
    """The verdict: what the best way would take at `max_loss`, and from which loss on it would take most; and what the
    student would."""
    way = best(found)
    now = offload(found, way, max_loss)
    text = f"With max_loss {max_loss:.0%} {_took(now)} would be offloaded ({way})"
    if now.share > 0 and found.large_usd:
        text += _money(now.saved)
    more = _where_it_pays(found, way, max_loss)
    if now.share < 1.0 and more is not None:
        text += f"; at {more.max_loss:.0%} {_took(more)} would"
        if found.large_usd:
            text += _money(more.saved)
    text += "."
    if STUDENT in found.ways:
        text += f" The student would take {_took(offload(found, STUDENT, max_loss))} at {max_loss:.0%}."
    return text


def told(seen: Foreseen, who: str) -> str:
    """A sentence on what would be proven."""
    return (
        f"{who} would come to answer {seen.share:.0%} ({seen.within.low:.0%} to {seen.within.high:.0%}) of"
        f" {seen.requests} requests like these."
    )


def _where_it_pays(found: Rehearsed, way: str, max_loss: float) -> Offload | None:
    """The smallest whole percentage above `max_loss` at which the way would take most requests."""
    loss = 1.0 - _qualities(found.ways[way])[_order(found, way)]
    enough = (n / 100 for n in range(int(100 * max_loss) + 1, 101) if _share(loss, n / 100) >= _MOST)
    least = next(enough, None)
    return None if least is None else offload(found, way, least)


def _order(found: Rehearsed, way: str) -> npt.NDArray[np.int64]:
    sure = found.sure.get(way) or [one.similarity for one in found.questions]
    return np.argsort(-np.array(sure), kind="stable")


def _took(one: Offload) -> str:
    return "nothing" if one.share == 0 else f"{one.share:.0%} ({one.within.low:.0%} to {one.within.high:.0%})"


def _money(saved: float) -> str:
    return f", saving {saved:.0%}" if saved >= 0 else f", costing {-saved:.0%} more"


def _share(loss: Floats, max_loss: float) -> float:
    """The largest share of the first of these whose loss, over all of them, stays within the bound."""
    within = np.flatnonzero(np.cumsum(loss) / len(loss) <= max_loss + 1e-9)
    return float(within[-1] + 1) / len(loss) if len(within) else 0.0


def _qualities(tried: Sequence[Tried | None]) -> Floats:
    """0 if it is not for the way to answer."""
    return np.array([0.0 if one is None else one.quality for one in tried])
