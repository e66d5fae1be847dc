"""The quality floor: answers lose at most a share x of quality against the reference engine, with confidence 1 - alpha.

Every request earns x of loss; every offloaded request spends its deficit, of which only sampled judgements are seen:
router.guarantee.losses bounds what was spent. What is left decides how much may be offloaded until the next judgements
arrive, counting each of those requests as a total loss.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from router.guarantee.losses import Losses

FloorStatus = Literal["holds", "limiting", "threatened"]
"""holds: everything may be offloaded. limiting: the share is limited to keep the floor. threatened: it is not proven."""

_KEPT = (
    "requests",
    "offloaded",
    "judged",
    "weighted_deficit",
    "forfeited",
    "lag",
    "widest_lag",
    "pace_per_s",
    "at_s",
)
"""The fields that are kept of an account beside the losses it saw, none of it below 0."""


@dataclass(frozen=True, slots=True)
class FloorSettings:
    """The guarantee and its assumptions."""

    x: float
    """Largest mean loss per request, 0 to 1, on the scale where the reference's own answers are 1."""
    alpha: float
    """Probability that the guarantee is ever broken."""
    judged_share: float
    """Least probability with which any offloaded request is judged."""
    lag_requests: int = 100
    """Requests that may pass before the judgement of a request, if there is one, has arrived and changed the share."""

    def __post_init__(self) -> None:
        for name in ("x", "alpha"):
            if not 0.0 < (value := getattr(self, name)) < 1.0:
                raise ValueError(f"{name} is {value}; it must lie between 0 and 1")
        if not 0.0 < self.judged_share <= 1.0:
            raise ValueError(f"judged_share is {self.judged_share}; it must be above 0 and at most 1")
        if self.lag_requests < 1:
            raise ValueError(f"lag_requests is {self.lag_requests}; it must be at least 1")

    def most_credit(self, lag_requests: int) -> float:
        """Largest credit that can be saved up, in whole lost answers: enough to offload all of one lag, plus a few bad
        judgements of 1 / share each."""
        return 1.5 * lag_requests + 5.0 / self.judged_share


@dataclass(frozen=True, slots=True)
class Judged:
    """A judgement of an offloaded request, as read from the log."""

    at_s: float
    deficit: float
    probability: float


class QualityFloor:
    """The account of one tenant and model. Not thread-safe; the learner keeps it and workers read the cap."""

    def __init__(self, settings: FloorSettings) -> None:
        self.settings = settings
        self._losses = Losses(settings.judged_share, settings.alpha)
        self._requests = self._offloaded = self._judged = 0
        self._weighted_deficit = 0.0
        self._forfeited = 0.0
        self._at_s = 0.0
        self._lag = self._widest_lag = settings.lag_requests
        self._pace_per_s = 0.0

    def passed(self, requests: int, offloaded: int) -> None:
        """Counts requests that were decided since the last call, whichever engine answered.

        `offloaded` of them went to another engine than the reference. Call it after `note` for the judgements that arrived.
        Raises ValueError for impossible counts.
        """
        if not 0 <= offloaded <= requests:
            raise ValueError(f"{offloaded} offloaded of {requests} requests is impossible")
        self._requests += requests
        self._offloaded += offloaded
        self._forfeited += max(0.0, self._budget() - self.settings.most_credit(self._widest_lag))

    def note(self, deficit: float, probability: float, at_s: float) -> None:
        """Records the judgement of an offloaded request: how much worse its answer was than the reference's.

        `deficit` is 0 (as good, or better) to 1; `probability` is that of having been judged, decided by a coin that
        does not depend on the answer. A judgement that was begun and failed should be recorded too, as deficit 1; where
        many are missing they are counted as such anyway. Raises ValueError outside these ranges, or for a probability
        below the settings' judged_share, for which the bound would not hold.
        """
        if not 0.0 <= deficit <= 1.0:
            raise ValueError(f"deficit is {deficit}; it lies between 0 and 1")
        if not self.settings.judged_share * (1 - 1e-9) <= probability <= 1.0:
            raise ValueError(
                f"probability is {probability}; it lies between judged_share ({self.settings.judged_share}) and 1"
            )
        probability = max(probability, self.settings.judged_share)
        self._judged += 1
        self._weighted_deficit += deficit / probability
        self._at_s = max(self._at_s, at_s)
        self._losses.add(deficit, probability)

    def advance(self, requests: Iterable[tuple[float, bool]], judged: Sequence[Judged]) -> None:
        """Records judgements and counts requests since the last call; requests as (decided at, whether offloaded).

        Both are sorted by time. The credit that is forfeited depends slightly on how often the account is updated; here
        ten times per lag.
        """
        every = max(1, self._lag // 10)
        waiting = iter(judged)
        following = next(waiting, None)
        counted = offloaded = 0
        for at_s, is_offloaded in requests:
            counted += 1
            offloaded += is_offloaded
            if counted == every:
                while following is not None and following.at_s <= at_s:
                    self.note(following.deficit, following.probability, following.at_s)
                    following = next(waiting, None)
                self.passed(counted, offloaded)
                counted = offloaded = 0
        while following is not None:
            self.note(following.deficit, following.probability, following.at_s)
            following = next(waiting, None)
        self.passed(counted, offloaded)

    def loss_bound(self) -> float:
        """Upper bound on the sum of the deficits of all offloaded requests so far, in lost answers."""
        return self._losses.most(float(self._offloaded), self._silent())

    def keep_pace(self, requests: int, over_s: float, lag_s: float) -> None:
        """Sets the lag to the requests that arrive in `lag_s` seconds at the present rate, if more than configured.

        `requests` were decided in the last `over_s` seconds; the rate is a moving average over about `lag_s`, so that a
        burst does not stop offloading. Raises ValueError for a negative count or times that are not positive.
        """
        if requests < 0 or not (over_s > 0.0 and lag_s > 0.0):
            raise ValueError(
                f"{requests} requests in {over_s} s with a lag of {lag_s} s: a pace cannot be told"
            )
        self._pace_per_s += -math.expm1(-over_s / lag_s) * (requests / over_s - self._pace_per_s)
        self._lag = max(math.ceil(self._pace_per_s * lag_s), self.settings.lag_requests)
        self._widest_lag = max(self._widest_lag, self._lag)

    def offload_cap(self) -> float:
        """The share of the coming requests that may be offloaded, 0 to 1, until the next call.

        It is x while nothing is proven, since an answer loses at most all of itself, plus the remaining budget spread
        over one lag. With a mean deficit m it settles at min(1, x / m), without assuming that m stays constant.
        """
        return min(1.0, max(0.0, self.settings.x + self._budget() / self._lag))

    @property
    def requests(self) -> int:
        """Number of requests counted so far."""
        return self._requests

    def status(self) -> FloorStatus:
        """Return the state of the guarantee, for people and metrics."""
        if self._budget() < 0.0:
            return "threatened"
        return "holds" if self.offload_cap() >= 1.0 else "limiting"

    def state(self) -> dict[str, Any]:
        """The account's figures, for metrics and admin."""
        bound = self.loss_bound()
        return {
            "standing": self.status(),
            "cap": self.offload_cap(),
            "x": self.settings.x,
            "alpha": self.settings.alpha,
            "requests": self._requests,
            "offloaded": self._offloaded,
            "judged": self._judged,
            "judgements_missing": self._silent(),
            "loss_estimate": self._weighted_deficit / max(1, self._requests),
            "loss_bound": bound / max(1, self._requests),
            "deficit_bound": min(1.0, bound / self._offloaded) if self._offloaded else 1.0,
            "credit": self._budget(),
            "lag_requests": self._lag,
            "judged_at_s": self._at_s,
        }

    def to_json(self) -> str:
        """The whole account, from which `from_json` continues."""
        promised = dict(zip(("x", "alpha", "judged_share"), self._promised(), strict=True))
        kept = {name: getattr(self, f"_{name}") for name in _KEPT}
        return json.dumps(promised | kept | {"spent": self._losses.spent}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str, settings: FloorSettings) -> QualityFloor:
        """Reads `to_json`. Raises ValueError if `text` is no account or has other settings: rebuild it from the log then."""
        floor = cls(settings)
        try:
            found = json.loads(text)
            promised = (found["x"], found["alpha"], found["judged_share"])
            spent, kept = [float(each) for each in found["spent"]], {name: found[name] for name in _KEPT}
            possible = all(0.0 <= each < math.inf for each in (*spent, *kept.values()))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a quality floor's state: {type(error).__name__}") from error
        if promised != floor._promised():
            raise ValueError(f"a state of another promise (x, alpha, judged_share): {promised}")
        counted = possible and kept["offloaded"] <= kept["requests"]
        if not counted or len(spent) != len(floor._losses.spent):
            raise ValueError("not a quality floor's state: counts or sums are impossible")
        floor._losses.spent = spent
        for name, value in kept.items():
            setattr(floor, f"_{name}", value)
        floor._lag = max(settings.lag_requests, floor._lag)
        # The credit needed at noon must not be forfeited at night, when the lag is short.
        floor._widest_lag = max(floor._lag, floor._widest_lag)
        return floor

    def _promised(self) -> tuple[float, float, float]:
        return self.settings.x, self.settings.alpha, self.settings.judged_share

    def _silent(self) -> float:
        """Judgements missing beyond what chance and the lag explain; each counts as deficit 1.

        A judge that is down, or that fails on exactly the bad answers, must not look like good news.
        """
        share = self.settings.judged_share
        due = share * max(0, self._offloaded - self._lag)
        return max(0.0, due - 3.0 * math.sqrt(due) - self._judged)

    def _budget(self) -> float:
        """Loss earned, less the bound on what was spent, less what was forfeited, in lost answers."""
        return self.settings.x * self._requests - self.loss_bound() - self._forfeited


def rebuilt(
    settings: FloorSettings, requests: Iterable[tuple[float, bool]], judged: Sequence[Judged]
) -> QualityFloor:
    """The account computed from the log alone: see `QualityFloor.advance`."""
    floor = QualityFloor(settings)
    floor.advance(requests, judged)
    return floor


def cap_in_force(cap: float | None, x: float, age_s: float, trusted_for_s: float) -> float:
    """The cap a worker applies: the learner's while it is fresh, afterwards at most x, which needs no proof.

    `cap` None: none was computed yet. `age_s`: seconds since it was computed.
    """
    if cap is None:
        return x
    return cap if age_s <= trusted_for_s else min(cap, x)
