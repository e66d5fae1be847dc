"""Adds up a tenant's comparisons, and derives which rungs of the ladder they prove.

Counts only: a histogram of similarities, labels per rung, answers given out, audits and how many were wrong. All of it can
be rebuilt from rows, and none crosses a tenant, an embedding version or a policy, because each has a ledger of its
own. Refuses to know entries, texts and where the rows are kept.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from learning.reuse.curve import SCEPTICAL, Line, fit
from router.guarantee.evidence import Detector, exceeds, spent
from router.guarantee.losses import most_hidden

Counts = Mapping[tuple[str, int], int]
"""(kind, slot) to how many. Kinds: right and wrong per hundredth of similarity, labelled and mistaken per rung, and reused,
audited, audited_wrong, restart in slot 0."""

RUNGS = (0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.27, 0.4)
"""Upper edges of how doubtful a candidate looks to the model. Rung 0 is the safest; beyond the last nothing is reused."""
BINS = 100
GRACE_CAUGHT = 3
"""So many wrong audits are forgiven before a phase has reused enough to pay for them: fewer would stop honest traffic."""
ENTRY_MEMORY = 16
"""The number of an entry's latest observations that count."""
ENTRY_SD = 1.5
"""The standard deviation of entries from their tenant's line, in logits."""
BAND_Z = 1.0
"""The confidence band's half-width in standard deviations. It only shapes the ranking."""
COMPARE_ABOVE = 0.6
"""Below this similarity nothing is compared: it would cost a comparison and could never be reused."""
MAX_PHASES = 5
"""The number of times the monitor may stop reuse before only a person can allow it again."""
_SEEN = 20
"""A block ends at a rung with at least so many labels of its own."""
_FALSE_ALARM_AFTER = 1000.0
"""Audits, on average."""
_FIRST_PHASE = 0.8
"""Most traffic never sees a second phase, so the first gets most of the confidence."""


class Standing(enum.Enum):
    """The monitor's permission to reuse anything."""

    OPEN = "open"
    OVER_BUDGET = "over_budget"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class ReuseSettings:
    """The settings of a key's reuse. `delta` is what its owner chose; the rest is the operator's."""

    delta: float
    """At most this share of reused answers may be wrong: 0.01, 0.02 or 0.05."""
    alpha: float = 0.05
    """The chance that the ladder's proof, or the monitor's, is mistaken; each gets half."""
    audit_share: float = 0.1
    """The share of what could be reused that is asked anyway and compared, by a coin."""
    own_observations: int = 1
    """An entry with fewer labels of its own is not reused, whatever its tenant's line says."""

    @property
    def policy(self) -> str:
        """Names everything the counts depend on: a change of any part starts from nothing."""
        return (
            f"v1 delta={self.delta:g} alpha={self.alpha:g} audit={self.audit_share:g} own={self.own_observations}"
            f" memory={ENTRY_MEMORY} sd={ENTRY_SD:g} z={BAND_Z:g} above={COMPARE_ABOVE:g}"
        )

    def __post_init__(self) -> None:
        """Raises ValueError naming the setting that is out of range."""
        for name in ("delta", "alpha", "audit_share"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must lie between 0 and 1")


@dataclass(frozen=True, slots=True)
class Written:
    """Counts to be kept, and the phase they belong to."""

    phase: int
    counts: Counts


class Ledger:
    """The counts, and what follows from them. Not thread-safe."""

    def __init__(self, settings: ReuseSettings) -> None:
        self.settings = settings
        self.phase = 0
        """The number of times that every proof was taken back."""
        self.audits_under_way = 0
        """The number of this worker's audits that have begun, and whose outcome is not known yet."""
        self._shape: Counter[tuple[str, int]] = Counter()
        self._now: Counter[tuple[str, int]] = Counter()
        self._labels = 0
        self._detector = Detector(_FALSE_ALARM_AFTER)
        self._line: Line | None = None
        self._line_at = 0
        self._proven: int | None = None

    def restore(self, by_phase: Mapping[int, Counts]) -> None:
        """Take these counts for the truth: what all workers wrote, this one included. The alarm keeps its memory."""
        phase = max(by_phase, default=0)
        if phase != self.phase:
            self._detector.restart()
        self.phase = phase
        self._shape.clear()
        for counts in by_phase.values():
            self._shape.update({key: n for key, n in counts.items() if key[0] in ("right", "wrong")})
        self._now = Counter(
            {key: n for key, n in by_phase.get(phase, {}).items() if key[0] not in ("right", "wrong")}
        )
        self._labels = self._shape.total()
        self._line, self._proven = None, None

    def count(self, kind: str, slot: int = 0) -> int:
        """One of this phase's counts; of all phases for right and wrong."""
        return (self._shape if kind in ("right", "wrong") else self._now)[kind, slot]

    def line(self) -> Line:
        """The tenant's line. Fitted anew whenever the labels have grown by a twentieth."""
        if self._line is None or self._labels >= self._line_at * 1.05 + 1:
            bins = sorted({slot for _, slot in self._shape})
            self._line = fit(
                SCEPTICAL,
                [((bin + 0.5) / BINS, self._shape["right", bin], self._shape["wrong", bin]) for bin in bins],
            )
            self._line_at = self._labels
        return self._line

    def rung(self, lower: float) -> int | None:
        """The rung of a candidate whose chance of being right is at least `lower`; None beyond the last."""
        doubt = 1.0 - lower
        return next((rung for rung, edge in enumerate(RUNGS) if doubt <= edge), None)

    def proven(self) -> int:
        """The last rung such that the ladder up to it falls into blocks, each of which is proven; -1 for none.

        A block is a run of rungs whose labels, taken together, prove a mean error of at most delta. Blocks keep a
        thinly labelled safe rung from blocking the rest, and closed rungs, where everything is labelled, from
        outvoting open ones, where only audits are. The confidence is shared over all possible blocks.
        """
        if self._proven is None:
            rungs = len(RUNGS)
            # Half of the confidence for blocks that begin at the safest rung, half for all others.
            first, other = self._alpha() / (2 * rungs), self._alpha() / (rungs * (rungs - 1))
            reached = [True] + [False] * rungs
            for start in range(rungs):
                if not reached[start]:
                    continue
                labelled = wrong = 0
                for end in range(start, rungs):
                    labelled += self._now["labelled", end]
                    wrong += self._now["mistaken", end]
                    # Labels elsewhere must not open a rung that nobody has looked at.
                    if reached[end + 1] or self._now["labelled", end] < _SEEN:
                        continue
                    told = {1.0: labelled - wrong, 0.0: wrong}
                    reached[end + 1] = exceeds(told, 1.0 - self.settings.delta, other if start else first)
            self._proven = max(end for end, is_reached in enumerate(reached) if is_reached) - 1
        return self._proven

    def standing(self) -> Standing:
        """OPEN while one more reuse, even a wrong one, would keep wrong <= delta * reused + grace.

        Audits under way are taken for wrong until they are known: slow answers must not buy reuse.
        """
        if self.phase >= MAX_PHASES:
            return Standing.GIVEN_UP
        return Standing.OPEN if self._affordable(self.audits_under_way) else Standing.OVER_BUDGET

    def hidden_wrong(self, supposed_caught: int = 0) -> float:
        """Bound the number of this phase's reused answers that were wrong, if so many more audits were wrong."""
        caught = self._now["audited_wrong", 0] + supposed_caught
        return most_hidden(caught, self.settings.audit_share, self._alpha())

    def grace(self) -> float:
        """Return how many wrong answers are allowed before reuse has paid for any: audits are blind to so few."""
        return 1.0 + most_hidden(GRACE_CAUGHT, self.settings.audit_share, self._alpha())

    def add_label(
        self, similarity: float, right: bool, rung: int | None, *, audit: bool
    ) -> tuple[Written, ...]:
        """Count a comparison; `audit` if the candidate would have been reused but for the coin.

        Gives what to keep: a second part when this label made the monitor take every proof back.
        """
        counts: Counter[tuple[str, int]] = Counter()
        counts["right" if right else "wrong", min(max(int(similarity * BINS), 0), BINS - 1)] += 1
        if rung is not None:
            counts["labelled", rung] += 1
            counts["mistaken", rung] += not right
        if audit:
            counts["audited", 0] += 1
            counts["audited_wrong", 0] += not right
            self._detector.add(float(right), 1.0 - self.settings.delta)
        counts = +counts
        self._add(counts)
        written = Written(self.phase, counts)
        if self._detector.found or not self._affordable(0):
            return written, self.restart()
        return (written,)

    def add_reuse(self) -> Written:
        """Count an answer given out unseen."""
        counts = {("reused", 0): 1}
        self._add(counts)
        return Written(self.phase, counts)

    def restart(self) -> Written:
        """Take every proof back: rungs must be earned again from labels that come after this."""
        self.phase += 1
        self._detector.restart()
        self._now.clear()
        self._proven = None
        counts = {("restart", 0): 1}
        self._add(counts)
        return Written(self.phase, counts)

    def _affordable(self, supposed_caught: int) -> bool:
        budget = self.settings.delta * (self._now["reused", 0] + 1) + self.grace()
        return self.hidden_wrong(supposed_caught) + 1.0 <= budget

    def _add(self, counts: Counts) -> None:
        for key, count in counts.items():
            if key[0] in ("right", "wrong"):
                self._shape[key] += count
                self._labels += count
            else:
                self._now[key] += count
                if key[0] == "labelled":
                    self._proven = None

    def _alpha(self) -> float:
        """The confidence of this phase's ladder, and of its monitor: over all phases each spends half of alpha."""
        share = _FIRST_PHASE if self.phase == 0 else (1.0 - _FIRST_PHASE) * spent(self.phase - 1)
        return self.settings.alpha / 2.0 * share
