"""Trains each kind of artifact: adapts the training functions to the learner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from learning.learned.learner import Incumbent, Trained
from learning.training import bandit as bandit_training
from learning.training.scorer.rows import AnswersOf, rows_from_log
from store.decisions.outcomes import Experience
from store.records import ChoiceRecord

if TYPE_CHECKING:
    from learning.training.scorer.lessons import LessonsOf


_FEWEST_CLEAR = 20
"""So many outcomes that are all alike are some evidence."""


@dataclass(frozen=True, slots=True)
class BanditTrainer:
    """Trains the bandit, which predicts the quality of each action."""

    outcomes_needed: int
    """If nothing is clear; fewer are enough where an action is (learning.training.bandit.enough)."""
    half_life_s: float
    kind: str = "bandit"

    @property
    def needed(self) -> int:
        """See learning.training.learner.Trainer. Fewer never are enough evidence."""
        return min(self.outcomes_needed, _FEWEST_CLEAR)

    def train(self, experiences: Sequence[Experience], incumbent: Incumbent | None) -> Trained | None:
        """See learning.training.learner.Trainer."""
        from router.choosing.bandit_vw import BanditSettings

        latest = _latest_embedded(experiences)
        if latest is None or latest.vector is None:
            return None
        settings = BanditSettings(dimensions=len(latest.vector), embedding_version=latest.embedding_version)
        rows = [
            row
            for each in experiences
            if each.choice.embedding_version == latest.embedding_version
            and (row := bandit_training.rows_from_log(each.choice, each.outcomes)) is not None
        ]
        if not bandit_training.enough(rows, self.outcomes_needed):
            return None
        knobs = bandit_training.TrainingKnobs(half_life_s=self.half_life_s)
        before = incumbent.data if incumbent else None
        try:
            return bandit_training.train(rows, settings=settings, incumbent=before, knobs=knobs)
        except bandit_training.NothingToLearn:
            return None


@dataclass(frozen=True, slots=True)
class ScorerTrainer:
    """Trains the scorer, which predicts how much each example helps."""

    needed: int
    answers_of: Callable[[str], AnswersOf]
    """By tenant."""
    prior: Callable[[], bytes]
    lessons_of: LessonsOf | None = None
    """Makes lessons from a tenant's stored examples."""
    kind: str = "scorer"

    def train(self, experiences: Sequence[Experience], incumbent: Incumbent | None) -> Trained | None:
        """See learning.training.learner.Trainer."""
        from learning.training.scorer.training import LEAST_ROWS, TooFewOutcomes, trained

        latest = _latest_embedded(experiences)
        if latest is None:
            return None
        rows, taught = [], None
        for tenant in dict.fromkeys(each.choice.tenant for each in experiences):
            of_tenant = [(e.choice, e.outcomes) for e in experiences if e.choice.tenant == tenant]
            rows += rows_from_log(
                of_tenant, self.answers_of(tenant), embedding_version=latest.embedding_version
            )
            if self.lessons_of is not None and len(rows) >= LEAST_ROWS:
                taught = self.lessons_of(tenant, latest)
        try:
            before = incumbent.data if incumbent else self.prior()
            version, built_in = latest.embedding_version, incumbent is None
            return trained(rows, before, embedding_version=version, lessons=taught, built_in=built_in)
        except TooFewOutcomes:
            return None


def _latest_embedded(experiences: Sequence[Experience]) -> ChoiceRecord | None:
    embedded = (each.choice for each in reversed(experiences) if each.choice.vector is not None)
    return next(embedded, None)
