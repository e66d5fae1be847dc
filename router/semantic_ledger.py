"""What a tenant's comparisons added up to, and which rungs of the ladder they prove.

Counts only: a histogram of similarities, labels per rung, answers given out, audits and how many were wrong. Everything
here can be rebuilt from rows and never crosses a tenant, an embedding version or a delta, because each has a ledger of
its own. Refuses to know entries and texts.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Protocol

from router.semantic_curve import SCEPTICAL, Line, fit
from router.semantic_evidence import certified, hidden_wrong_bound

RUNGS = (0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.27, 0.4)
"""Upper edges of the modelled chance of being wrong. Rung 0 is the safest; beyond the last nothing is ever reused."""
BINS = 100
GRACE_CAUGHT = 3
_ALARM_LOG = math.log(1000.0)
"""An alarm is false at most once in a thousand audits on average."""


class Phase(enum.Enum):
    """Whether the monitor lets anything be reused."""

    OPEN = "open"
    OVER_BUDGET = "over_budget"
    GIVEN_UP = "given_up"


class Limits(Protocol):
    """What the ledger reads of the settings."""

    @property
    def delta(self) -> float: ...
    @property
    def alpha(self) -> float: ...
    @property
    def audit_share(self) -> float: ...
    @property
    def max_phases(self) -> int: ...


@dataclass(slots=True)
class Ledger:
    """The counts, and what follows from them."""

    right: list[float] = field(default_factory=lambda: [0.0] * BINS)
    """Per hundredth of similarity."""
    wrong: list[float] = field(default_factory=lambda: [0.0] * BINS)
    rung_labelled: list[int] = field(default_factory=lambda: [0] * len(RUNGS))
    rung_wrong: list[int] = field(default_factory=lambda: [0] * len(RUNGS))
    reused: int = 0
    audited: int = 0
    audited_wrong: int = 0
    alarm_log: float = 0.0
    restarts: int = 0
    _line: Line | None = None
    _labels: int = 0
    _line_at: int = 0
    _proven: int | None = None

    def line(self) -> Line:
        """The tenant's line. Fitted anew whenever the labels have grown by a twentieth."""
        if self._line is None or self._labels >= self._line_at * 1.05 + 1:
            self._line = fit(
                SCEPTICAL,
                [
                    ((bin + 0.5) / BINS, right, wrong)
                    for bin, (right, wrong) in enumerate(zip(self.right, self.wrong, strict=True))
                    if right or wrong
                ],
            )
            self._line_at = self._labels
        return self._line

    def rung(self, lower: float) -> int | None:
        """The rung of a candidate whose band ends at `lower`; None beyond the last."""
        doubt = 1.0 - lower
        return next((rung for rung, edge in enumerate(RUNGS) if doubt <= edge), None)

    def proven(self, limits: Limits) -> int:
        """The last rung such that the ladder up to it falls into blocks, each of which is proven; -1 for none.

        A block is a run of rungs whose labels, taken together, prove a mean error of at most delta. Blocks keep a
        thinly labelled safe rung from blocking the rest, and closed rungs, where everything is labelled, from
        outvoting open ones, where only audits are. The confidence is shared over all possible blocks.
        """
        if self._proven is None:
            rungs = len(RUNGS)
            alpha = self._share(limits) / (rungs * (rungs + 1) / 2)
            reached = [True] + [False] * rungs
            for start in range(rungs):
                if not reached[start]:
                    continue
                labelled = wrong = 0
                for end in range(start, rungs):
                    labelled += self.rung_labelled[end]
                    wrong += self.rung_wrong[end]
                    if not reached[end + 1] and certified(labelled, wrong, limits.delta, alpha):
                        reached[end + 1] = True
            self._proven = max(end for end, is_reached in enumerate(reached) if is_reached) - 1
        return self._proven

    def phase(self, limits: Limits) -> Phase:
        """OPEN while one more reuse, even a wrong one, would keep wrong <= delta * reused + grace."""
        if self.restarts >= limits.max_phases:
            return Phase.GIVEN_UP
        alpha = self._share(limits)
        worst = hidden_wrong_bound(self.audited_wrong, limits.audit_share, alpha)
        if worst + 1.0 <= limits.delta * (self.reused + 1) + self.grace(limits):
            return Phase.OPEN
        return Phase.OVER_BUDGET

    def grace(self, limits: Limits) -> float:
        """How many wrong answers must be allowed for, because audits need some to see any."""
        return 1.0 + hidden_wrong_bound(GRACE_CAUGHT, limits.audit_share, self._share(limits))

    def add_label(
        self, similarity: float, right: bool, rung: int | None, *, audit: bool, settings: Limits
    ) -> None:
        """Count a comparison; `audit` if the candidate would have been reused but for the coin."""
        bin = min(max(int(similarity * BINS), 0), BINS - 1)
        (self.right if right else self.wrong)[bin] += 1.0
        self._labels += 1
        self._proven = None
        if rung is not None:
            self.rung_labelled[rung] += 1
            self.rung_wrong[rung] += not right
        if audit:
            self.audited += 1
            self.audited_wrong += not right
            rate = min(4.0 * settings.delta, (1.0 + settings.delta) / 2.0)
            step = (
                math.log((1.0 - rate) / (1.0 - settings.delta)) if right else math.log(rate / settings.delta)
            )
            self.alarm_log = max(0.0, self.alarm_log) + step
            if self.alarm_log >= _ALARM_LOG or self.phase(settings) is Phase.OVER_BUDGET:
                self.restart()

    def add_reuse(self) -> None:
        """Count an answer given out unseen."""
        self.reused += 1

    def restart(self) -> None:
        """Take every proof back: rungs must be earned again from labels that come after this."""
        self.restarts += 1
        self.rung_labelled = [0] * len(RUNGS)
        self.rung_wrong = [0] * len(RUNGS)
        self.reused = self.audited = self.audited_wrong = 0
        self.alarm_log = 0.0
        self._proven = None

    def _share(self, limits: Limits) -> float:
        return limits.alpha / 2.0 / ((self.restarts + 1) * (self.restarts + 2) / 2)
