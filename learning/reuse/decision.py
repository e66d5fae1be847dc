"""May a remembered answer be given to a question that is merely similar? Reuse, or explore: ask, compare, learn.

The user's knob is delta, the share of reused answers that may be wrong; a similarity is nobody's knob. Three walls stand
one behind the other: a line per entry ranks candidates (learning/reuse/curve.py), a ladder of ranks opens a rung
only while labelled candidates prove its error (learning/reuse/ledger.py), and a monitor on random audits stops
everything. It refuses to know texts, engines and the store: whoever carries a decision out reports what came of it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from learning.reuse.curve import Line, fit
from learning.reuse.ledger import (
    BAND_Z,
    COMPARE_ABOVE,
    ENTRY_MEMORY,
    ENTRY_SD,
    Ledger,
    ReuseSettings,
    Standing,
    Written,
)

_SLOPE_SD = 0.5
"""The standard deviation of entries' slopes: small, so that one odd comparison cannot turn "nearer is safer" round."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One comparison of an entry's answer with a fresh one."""

    similarity: float
    right: bool


@dataclass(frozen=True, slots=True)
class Reuse:
    """Give the remembered answer. Report it with `SemanticReuse.reused`."""

    rung: int
    probability: float
    """With which this was chosen, the audit's coin being the only chance in it."""
    lower: float
    """The lower edge of the band around P(right)."""


@dataclass(frozen=True, slots=True)
class Explore:
    """Ask the model. If `compare`, report what the comparison said with `SemanticReuse.observed`."""

    reason: str
    """new_entry, unsure, unproven, audit, stopped, far."""
    rung: int | None
    probability: float
    compare: bool
    lower: float = 0.0

    @property
    def audit(self) -> bool:
        """Tell if this would have been a reuse, had the coin fallen otherwise."""
        return self.reason == "audit"


@dataclass(frozen=True, slots=True)
class Learnt:
    """The rows to keep after a comparison: an observation with its entry, counts with the tenant."""

    observation: Observation
    written: tuple[Written, ...]


class SemanticReuse:
    """Decides for one tenant, one embedding version and one policy. Not thread-safe; nothing here waits."""

    def __init__(self, settings: ReuseSettings, ledger: Ledger | None = None) -> None:
        self.settings = settings
        self.ledger = ledger or Ledger(settings)

    def decide(self, entry: Sequence[Observation], similarity: float, rng: random.Random) -> Reuse | Explore:
        """Decide about an entry with these observations (oldest first) at this similarity.

        `rng` must be unpredictable to clients. A similarity that is not finite explores. Gates are the caller's: where
        one blocks, ask the model without asking here.
        """
        settings, ledger = self.settings, self.ledger
        if not math.isfinite(similarity) or similarity < COMPARE_ABOVE:
            return Explore("far", None, 1.0, compare=False)
        if len(entry) < settings.own_observations:
            return Explore("new_entry", None, 1.0, compare=True)
        lower = self.line(entry).lower(similarity, BAND_Z)
        rung = ledger.rung(lower)
        if rung is None:
            return Explore("unsure", None, 1.0, compare=True, lower=lower)
        if ledger.standing() is not Standing.OPEN:
            return Explore("stopped", rung, 1.0, compare=True, lower=lower)
        if rung > ledger.proven():
            return Explore("unproven", rung, 1.0, compare=True, lower=lower)
        if rng.random() < settings.audit_share:
            ledger.audits_under_way += 1
            return Explore("audit", rung, settings.audit_share, compare=True, lower=lower)
        return Reuse(rung, 1.0 - settings.audit_share, lower)

    def line(self, entry: Sequence[Observation]) -> Line:
        """The entry's line: the tenant's, widened by how much entries differ, moved by what was seen of this one."""
        prior = self.ledger.line().widened(ENTRY_SD, _SLOPE_SD)
        latest = entry[-ENTRY_MEMORY:]
        return (
            fit(prior, [(o.similarity, float(o.right), float(not o.right)) for o in latest])
            if latest
            else prior
        )

    def observed(self, decision: Explore, similarity: float, right: bool | None) -> Learnt:
        """Count what a comparison said after `decision`, which must have asked for one (ValueError otherwise).

        None, a comparison that could not tell, counts as wrong: answers that are hard to judge must not look good. A
        comparison that never came about, because the model failed, is reported to `abandoned` instead.
        """
        if not decision.compare:
            raise ValueError(f"a decision to explore because {decision.reason!r} asked for no comparison")
        label = right is True
        self.abandoned(decision)
        written = self.ledger.add_label(similarity, label, decision.rung, audit=decision.audit)
        return Learnt(Observation(similarity, label), written)

    def abandoned(self, decision: Explore) -> None:
        """There will be no comparison after `decision`. Only what has nothing to do with being right may lead here."""
        if decision.audit:
            self.ledger.audits_under_way = max(0, self.ledger.audits_under_way - 1)

    def reused(self) -> Written:
        """Count one answer given out: call it before the first byte leaves, so that a crash cannot forget it."""
        return self.ledger.add_reuse()
