"""Keeps what offloaded answers may have lost within a share of all requests, whatever the engines do.

A proof that an engine is good rests on the past; an engine may change, or behave otherwise once it serves. The ledger
assumes nothing of the kind. Before another answer is given out, three things must fit together into `max_loss` of the
requests so far: what the answers whose checks are back can have lost by the bound of `router.guarantee.losses`, all answers
whose checks are still on their way, and the next one, the last two taken for lost. The bound holds at all times together
with a probability of 1 - alpha.

Workers keep it together: each notes its counts with a decision, and so each outcome in the log tells all of them, also after
a restart. The answers of other workers whose checks are still on their way are not known to it.
"""

from __future__ import annotations

import math
import secrets

from router.guarantee.losses import Losses

SHARES = (0.25, 0.15, 0.1)
"""Shares of the answers that are checked: the first at the beginning, the others once there is so much room (`ROOMS`) that
less checking suffices. The lower it is, the more may be hidden, so answers are bounded apart by their share."""
_ALPHAS = (0.6, 0.25, 0.15)
_FALLING = 0.75
"""See Losses: what matters is the beginning."""
_LATELY = 25.0
"""Checks. Of a quarter of the answers, about the latest hundred."""
ROOMS = (45.0, 150.0)
"""Room, in answers, from which on the next lower share suffices: somewhat more than its first answers may hide."""


class _Due:
    """The checks of this worker's answers that are to be expected, and those that come back; all, and about the latest
    `_LATELY`."""

    def __init__(self) -> None:
        self._all = self._back = self._lately = self._lately_back = 0.0

    def expect(self, share: float) -> None:
        """Count an answer that is checked with this probability."""
        kept = 1.0 - share / _LATELY
        self._all += share
        self._lately = self._lately * kept + share
        self._lately_back *= kept

    def strike(self, share: float) -> None:
        """Expect none of one answer after all."""
        self._all = max(0.0, self._all - share)
        self._lately = max(0.0, self._lately - share)

    def came(self) -> None:
        """Count a check that came back."""
        self._back += 1
        self._lately_back += 1

    def fewer(self) -> float:
        """Return how many times fewer checks came back than chance explains, as for want of money; at least 1."""
        lately = _surely(self._lately) / max(1.0, self._lately_back)
        return max(1.0, lately, _surely(self._all) / max(1.0, self._back))


class _Tier:
    """The answers that were to be checked with one probability."""

    def __init__(self, share: float, alpha: float) -> None:
        self._share = share
        self._losses = Losses(share, alpha, _FALLING)
        self._most = self._withheld = 0.0
        self.served = 0
        """Answers that this worker counted."""
        self._due = _Due()

    def serve(self) -> None:
        """Count an answer that this worker gives out."""
        self.served += 1
        self._due.expect(self._share)

    def take_back(self) -> None:
        """An answer was not given out after all."""
        self._due.strike(self._share)

    def check(self, loss: float, *, own: bool) -> None:
        """Count what a check found."""
        if own:
            self._due.came()
        self._losses.add(loss, self._share)
        self._most = self._losses.most()

    def withhold(self, loss: float) -> None:
        """Count what a check found before the answer was given out: that was not lost."""
        self._withheld += loss
        self.check(loss, own=True)

    def begin(self) -> None:
        """Take into account what may be lost before the first check."""
        self._most = self._most or self._losses.most()

    def lost(self) -> float:
        """What its answers have lost at most: more if fewer checks came back than chance explains."""
        return (self._most - self._withheld) * self._due.fewer()


class Ledger:
    """The account of one tenant and served model. Not thread-safe."""

    def __init__(
        self,
        max_loss: float,
        alpha: float,
        shares: tuple[float, float, float] = SHARES,
        rooms: tuple[float, float] = ROOMS,
    ) -> None:
        """`max_loss`: share of the requests, 0 to 1, that may be lost. `alpha`: chance that more are ever lost. `shares` and
        `rooms`: as SHARES and ROOMS."""
        self._max_loss = max_loss
        self._shares, self._rooms = shares, rooms
        self._tiers = [_Tier(share, alpha * part) for share, part in zip(shares, _ALPHAS, strict=True)]
        self._stage = 0
        """Place in `shares` of the one that suffices now."""
        self.by = secrets.randbits(48)
        """Names this worker among those that keep the account."""
        self.asked = 0
        """Requests that this worker decided."""
        self._elsewhere: dict[int, tuple[int, int]] = {}
        """By other worker, also of those before a restart: the least and the largest such number that it noted."""
        self._heard_elsewhere: dict[int, int] = {}
        """By other worker, the number of the latest answer of which a check came back."""
        self.served = 0
        """Answers of this worker's that are to be checked; the number of the latest."""
        self._heard = 0
        """The latest of these of which a check came back: those after it are pending."""
        self._back: set[int] = set()
        """Those after it that were not given out after all."""
        self._assumed, self._assumed_due = 0.0, _Due()
        self._excused = 0.0

    def serve(self, excused: float = 0.0) -> int:
        """Count an answer that is given out and checked with a probability of `share()`. `excused`: what checks find lost on
        average although nothing is. Returns its number."""
        self.served += 1
        self._excused += excused
        self._tiers[self._stage].serve()
        return self.served

    def take_back(self, number: int, share: float, excused: float) -> None:
        """Strike the answer of this number, which was not given out after all; `share` and `excused` as when it was."""
        self._back.add(number)
        self._excused -= excused
        self._tier(share).take_back()

    def assume(self, loss: float, share: float = 0.0) -> None:
        """Count an answer that is believed to lose `loss`, as what is known of it bounds nothing. It is checked with a
        probability of `share`: if too few of these checks come back it is taken to lose more."""
        self._assumed += loss
        self._assumed_due.expect(share)

    def take_back_assumed(self, loss: float, share: float) -> None:
        """Strike an answer that was believed and not given out after all; as when it was."""
        self._assumed -= loss
        self._assumed_due.strike(share)

    def check_assumed(self, by: int) -> None:
        """Count that the check of an answer that a worker believed came back."""
        if by == self.by:
            self._assumed_due.came()

    def note(self, by: int, asked: int) -> None:
        """Learn how many requests a worker had decided."""
        if by != self.by:
            least, most = self._elsewhere.get(by, (asked, asked))
            self._elsewhere[by] = min(least, asked), max(most, asked)

    def check(self, by: int, number: int, share: float, loss: float, excused: float = 0.0) -> None:
        """Count what the check of a worker's answer found: a loss of 0 to 1. `excused`: as that worker counted it."""
        own = by == self.by
        self._tier(share).check(loss, own=own)
        if own:
            self._heard = max(self._heard, number)
            self._back = {each for each in self._back if each > self._heard}
        else:
            self._heard_elsewhere[by] = max(self._heard_elsewhere.get(by, 0), number)
            # Each stands for the answers that were not checked, too.
            self._excused += excused / share

    def _tier(self, share: float) -> _Tier:
        return next(
            (tier for tier, each in zip(self._tiers, self._shares, strict=True) if share >= each),
            self._tiers[-1],
        )

    def settle(self, share: float, withheld: float | None) -> None:
        """Count an answer that a log tells together with its check. `withheld`: the loss that the check found before the
        answer was given out; None: it was not checked."""
        tier = self._tier(share)
        tier.serve()
        self.served += 1
        self._heard = self.served
        if withheld is None:
            tier.begin()
        else:
            tier.withhold(withheld)

    def allows(self) -> bool:
        """Tell whether another answer may be given out."""
        return self.room() >= 1.0

    def share(self) -> float:
        """The probability with which the next answer is to be checked."""
        room = self.room()
        while self._stage < len(self._rooms) and room >= self._rooms[self._stage]:
            self._stage += 1
        return self._shares[self._stage]

    def room(self) -> float:
        """How many more answers may be lost."""
        pending = self.served - self._heard - len(self._back)
        return self._max_loss * self.requests - self.lost() - pending

    @property
    def requests(self) -> int:
        """Requests that all workers are known to have decided."""
        return self.asked + sum(most - least for least, most in self._elsewhere.values())

    @property
    def given(self) -> int:
        """Answers that all workers are known to have given out."""
        return self.served + sum(self._heard_elsewhere.values())

    def lost(self) -> float:
        """What the answers whose checks are back have lost at most, in answers."""
        heard = self._heard + sum(self._heard_elsewhere.values())
        if self._elsewhere:
            most = sum(tier.lost() for tier in self._tiers)
        else:
            most = sum(min(tier.lost(), tier.served) for tier in self._tiers)
        assumed = self._assumed * self._assumed_due.fewer()
        return max(0.0, min(float(heard), most) - self._excused) + assumed


def _surely(due: float) -> float:
    """Checks that come back with near certainty, of so many that are expected."""
    return due - 2.0 * math.sqrt(due) - 2.0
