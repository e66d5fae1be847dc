"""The loss by which the scorer's network learns from the bank's own lessons (see bank_lessons). Needs torch.

Two parts. Each example's help by itself: near certain if it says what was needed, about even if it says half of it or shows
the rule, hardly any otherwise. And, over all candidates of a request together, how much of the odds falls to those that say
what was needed, "none of them" being one of the choices (listwise softmax: Cao et al. 2007, "Learning to Rank: From Pairwise
Approach to Listwise Approach", section 4.2; several may be right, of which any will do). The second is what choosing needs:
the right example ahead of the one that nearly asks the same. How much help is really worth to an engine is for outcomes to
say, which are fitted at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from learning.training.scorer.bank_lessons import Lesson
from learning.training.scorer.network import Batch, batch_of
from learning.training.scorer.rows import Row

if TYPE_CHECKING:
    from learning.training.scorer.network import Network

LESSONS_WEIGHT = 0.3
"""Of the loss of lessons, against 1 of that of outcomes."""
PER_STEP = 128
HELP_IF_SAME, HELP_IF_PART, HELP_IF_RULE, HELP_OTHERWISE = 0.95, 0.5, 0.5, 0.005
_MOST_LOGIT = 15.0

Tensor = Any


@dataclass(frozen=True, slots=True)
class Taught:
    """Lessons as tensors: the requests' vectors and examples as a Batch, and a label per example."""

    batch: Batch
    same: Tensor
    """(examples,), 0 or 1."""
    whole: Tensor
    rule: Tensor
    counts: Tensor

    def some(self, which: Tensor) -> Taught:
        """Some of the lessons, in the given order; each at most once."""
        kept = torch.isin(self.batch.owner, which)
        return Taught(
            self.batch.rows(which), self.same[kept], self.whole[kept], self.rule[kept], self.counts[kept]
        )

    def without_pairs(self) -> Taught:
        """As Batch.without_pairs."""
        return replace(self, batch=self.batch.without_pairs())


def taught_by(lessons: Sequence[Lesson]) -> Taught:
    """At least one lesson."""
    rows = [
        Row(str(n), lesson.at_s, lesson.request, lesson.questions, lesson.answers, lesson.scalars, 0.0)
        for n, lesson in enumerate(lessons)
    ]

    def joined(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(lesson, name) for lesson in lessons])).float()

    return Taught(batch_of(rows), joined("same"), joined("whole"), joined("rule"), joined("counts"))


def loss_of(network: Network, taught: Taught, *, dropout: bool) -> Tensor:
    """Mean over examples of the first part plus mean over requests of the second."""
    logits = network.effect_logits(taught.batch, dropout=dropout)[0]
    same, rule, counts = taught.same, taught.rule, taught.counts
    saying = taught.whole * HELP_IF_SAME + (1 - taught.whole) * HELP_IF_PART
    target = same * saying + (1 - same) * (rule * HELP_IF_RULE + (1 - rule) * HELP_OTHERWISE)
    each = torch.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    alone = (each * counts).sum() / counts.sum().clamp(min=1.0)
    odds = logits.clamp(-_MOST_LOGIT, _MOST_LOGIT).exp() * counts * (1 - rule)
    none = torch.zeros(len(taught.batch.quality))
    everything = 1.0 + none.index_add(0, taught.batch.owner, odds)
    right = none.index_add(0, taught.batch.owner, odds * same)
    wanted = torch.where(right > 0, right, torch.ones_like(right))
    return alone + (everything.log() - wanted.log()).mean()
