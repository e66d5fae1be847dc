"""Fits one scorer network to outcomes, and to the bank's own lessons where there are any. Needs torch.

From outcomes alone: first the scalars by themselves, which hold for any request; then the embeddings, as far as they add to
it, each until the validation loss rises. Together, embeddings would learn the commonest requests by heart before the scalars
are fitted. With lessons: the scalars only, for a fixed number of steps at a falling rate (cosine: Loshchilov, Hutter 2017,
"SGDR", section 3). Lessons are so many that a few outcomes cannot carry the weights away, but of the embeddings they know no
more than one bank's names. Harm is then one number for all examples: told apart by example, it is mostly error, since nobody
knows which requests the engine would have got right.

Every other network of several is taught by the lessons alone first, for long. It tells the right example best, and is too
sure where it is wrong; the others are less sure throughout. Their mean is better than either
(docs/explanation/choosing-examples.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import torch

from learning.training.scorer.lessons_loss import LESSONS_WEIGHT, PER_STEP, Taught, loss_of
from learning.training.scorer.network import Batch, Network, set_quality_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Loss = Literal["pointwise", "pairwise"]
"""learning.training.scorer.training says what they are."""

MOST_EPOCHS, PATIENCE = 60, 8
LESSON_EPOCHS = 30
STUDY_STEPS, STUDIED_RATE, STUDIED_WEIGHT = 3000, 1e-3, 1.0
"""Of a network that is taught by lessons alone first: for how many steps, and rate and weight of lessons thereafter."""
BATCH_ROWS, BATCH_PAIRS = 128, 128
RATE, EMBEDDING_RATE = 4e-3, 1e-3
EMBEDDING_DECAY, DECAY = 0.5, 0.01
"""Weight decay of what reads embeddings, and of the rest (AdamW: Loshchilov, Hutter 2019, section 2)."""
ANCHOR = 0.3
"""Share of the pointwise loss in the pairwise one."""

Tensor = Any


def fitted(
    fit: Batch,
    check: Batch,
    pairs: npt.NDArray[np.int64],
    kind: Loss,
    seed: int,
    taught: Taught | None = None,
    *,
    studied: bool = False,
) -> tuple[Network, int]:
    """Weights, and after how many epochs they were reached: those with the lowest loss on `check`, or with lessons the last.

    `pairs`: (better, worse) places in `fit`, for the pairwise loss. `studied`: whether lessons alone are learnt first. The
    same input gives the same weights on one machine.
    """
    fitting = _Fitting(fit, torch.from_numpy(pairs), kind, seed)
    return fitting.outcomes_alone(check) if taught is None else fitting.with_lessons(taught, studied=studied)


class _Fitting:
    """One network on its way."""

    def __init__(self, fit: Batch, pairs: Tensor, kind: Loss, seed: int) -> None:
        self._fit, self._pairs, self._kind = fit, pairs, kind
        self._network = Network(fit, seed)
        self._network.fit_alone(fit)
        self._shuffle = torch.Generator().manual_seed(seed + 1)

    def outcomes_alone(self, check: Batch) -> tuple[Network, int]:
        network = self._network
        best, best_loss, best_epoch, epoch = network.kept(), float("inf"), 0, 0
        for stage in ("scalars", "embeddings"):
            if stage == "embeddings":
                network.restore(best)
                network.open_embeddings()
            optimiser = torch.optim.AdamW(self._groups(stage))
            stage_best, last = epoch, epoch + MOST_EPOCHS
            while epoch < last and epoch - stage_best < PATIENCE:
                epoch += 1
                for paired, which in self._steps():
                    self._step(optimiser, paired, which)
                with torch.no_grad():
                    now = _pointwise(check, self._predicted(check, dropout=False)).item()
                if now < best_loss:
                    best, best_loss, best_epoch, stage_best = network.kept(), now, epoch, epoch
        network.restore(best)
        return network, best_epoch

    def with_lessons(self, taught: Taught, *, studied: bool) -> tuple[Network, int]:
        self._fit, taught = self._fit.without_pairs(), taught.without_pairs()
        rate, weight = RATE, LESSONS_WEIGHT
        self._network.one_harm()
        if studied:
            optimiser, falling = self._falling(RATE, STUDY_STEPS)
            for _ in range(STUDY_STEPS):
                optimiser.zero_grad()
                self._lessons_drawn(taught).backward()
                optimiser.step()
                falling.step()
            rate, weight = STUDIED_RATE, STUDIED_WEIGHT
        epochs = [self._steps() for _ in range(LESSON_EPOCHS)]
        optimiser, falling = self._falling(rate, sum(map(len, epochs)))
        for paired, which in itertools.chain(*epochs):
            self._step(optimiser, paired, which, lambda: weight * self._lessons_drawn(taught))
            self._network.one_harm()
            falling.step()
        return self._network, LESSON_EPOCHS

    def _falling(self, rate: float, steps: int) -> tuple[Any, Any]:
        optimiser = torch.optim.AdamW(self._groups("scalars", rate))
        return optimiser, torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)

    def _lessons_drawn(self, taught: Taught) -> Tensor:
        drawn = torch.randperm(len(taught.batch.quality), generator=self._shuffle)[:PER_STEP]
        return loss_of(self._network, taught.some(drawn), dropout=True)

    def _step(
        self, optimiser: Any, paired: bool, which: Tensor, beside: Callable[[], Tensor] | None = None
    ) -> None:
        optimiser.zero_grad()
        if paired:
            value = self._pairwise(which)
        else:
            batch = self._fit.rows(which)
            value = _pointwise(batch, self._predicted(batch, dropout=True))
        if beside is not None:
            value = value + beside()
        value.backward()
        optimiser.step()

    def _predicted(self, batch: Batch, *, dropout: bool) -> Tensor:
        alone, with_one = self._network.qualities(batch, dropout=dropout)
        return set_quality_of(alone, with_one, batch.owner)

    def _pairwise(self, which: Tensor) -> Tensor:
        # A row is in several pairs: its examples are looked at once.
        rows, place = torch.unique(which, return_inverse=True)
        some = self._fit.rows(rows)
        quality = self._predicted(some, dropout=True).clamp(1e-5, 1 - 1e-5)
        better, worse = torch.logit(quality)[place].T
        observed = some.quality[place]
        margin = observed[:, 0] - observed[:, 1]
        ranking = (torch.nn.functional.softplus(worse - better) * margin).sum() / margin.sum()
        return ranking + ANCHOR * _pointwise(some, quality)

    def _groups(self, stage: str, rate: float = RATE) -> list[dict[str, Any]]:
        # Quality alone (topics, alone, alone_bias) is fitted by then, from the rows that show it.
        weights = self._network.weights
        others = [w for n, w in weights.items() if n not in ("low_rank", "topics", "alone", "alone_bias")]
        if stage == "scalars":
            return [{"params": others, "lr": rate, "weight_decay": DECAY}]
        return [
            {"params": others, "lr": RATE / 4, "weight_decay": DECAY},
            {"params": [weights["low_rank"]], "lr": EMBEDDING_RATE, "weight_decay": EMBEDDING_DECAY},
        ]

    def _steps(self) -> list[tuple[bool, Tensor]]:
        """One epoch: whether a step is of pairs, and of which."""
        rows = torch.randperm(len(self._fit.quality), generator=self._shuffle).split(BATCH_ROWS)
        if self._kind == "pointwise":
            return [(False, which) for which in rows]
        order = torch.randperm(len(self._pairs), generator=self._shuffle)
        steps: list[tuple[bool, Tensor]] = [(True, self._pairs[which]) for which in order.split(BATCH_PAIRS)]
        return steps + [(False, which) for which in rows[: max(1, len(steps) // 3)]]


def _pointwise(batch: Batch, quality: Tensor) -> Tensor:
    p = quality.clamp(1e-5, 1 - 1e-5)
    each = torch.nn.functional.binary_cross_entropy(p, batch.quality, reduction="none")
    return (each * batch.weight).sum() / batch.weight.sum()
