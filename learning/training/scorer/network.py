"""The scorer's network in torch: its weights, its two predictions, and the quality of a set made from them.

Only training imports it. learning.training.scorer.graph describes the network and writes it down for serving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from learning.training.scorer.graph import MOST_SPREADS, side_by_side
from learning.training.scorer.rows import Row
from router.examples.features import NAMES
from router.examples.set_quality import EPSILON

RANK, TOPICS, HIDDEN = 8, 4, 48
DROPOUT = 0.3
UNKNOWN_EFFECTS = (-1.5, -3.0)
"""Log-odds of help and of harm before anything is known: some help, hardly any harm."""
LEAST_ALONE = 50
"""Outcomes without examples under which quality alone stays a constant."""
ALONE_RIDGE = 300.0
MOST_LOGIT = 5.0
"""Log-odds at which quality alone is held, by the tanh it goes through."""
_EDGE = 1e-6

Tensor = Any
"""torch.Tensor; torch's own types change between versions."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows as tensors: examples of all rows in one list, `owner` is the index of each example's row."""

    requests: Tensor
    """(rows, d)"""
    questions: Tensor
    """(examples, d)"""
    answers: Tensor
    scalars: Tensor
    """(examples, s)"""
    owner: Tensor
    """(examples,): index of a row."""
    quality: Tensor
    """(rows,)"""
    weight: Tensor
    """(rows,)"""

    def rows(self, which: Tensor) -> Batch:
        """Some of the rows, in the given order; each at most once."""
        place = torch.full((len(self.quality),), -1, dtype=torch.long)
        place[which] = torch.arange(len(which))
        kept = place[self.owner] >= 0
        return Batch(
            self.requests[which],
            self.questions[kept],
            self.answers[kept],
            self.scalars[kept],
            place[self.owner[kept]],
            self.quality[which],
            self.weight[which],
        )

    def without_pairs(self) -> Batch:
        """Without the embeddings of examples, for what does not read them: they are most of what taking some rows copies."""
        none = torch.zeros((len(self.owner), 0))
        return replace(self, questions=none, answers=none)


def batch_of(rows: Sequence[Row]) -> Batch:
    """All rows as one batch; at least one row."""
    width = len(rows[0].request)

    def joined(arrays: list[Any], columns: int) -> Tensor:
        filled = [a for a in arrays if len(a)]
        return torch.from_numpy(
            np.concatenate(filled) if filled else np.zeros((0, columns), np.float32)
        ).float()

    counts = torch.tensor([len(row.scalars) for row in rows])
    return Batch(
        torch.from_numpy(np.stack([row.request for row in rows])).float(),
        joined([row.questions for row in rows], width),
        joined([row.answers for row in rows], width),
        joined([row.scalars for row in rows], len(NAMES)),
        torch.repeat_interleave(torch.arange(len(rows)), counts),
        torch.tensor([row.quality for row in rows], dtype=torch.float32),
        torch.tensor([row.weight for row in rows], dtype=torch.float32),
    )


class Network:
    """Weights and how they are used. `mean` and `spread` normalise the scalars and are not learnt."""

    reads_pairs = False
    """Whether the embeddings of examples are used."""

    def __init__(self, batch: Batch, seed: int) -> None:
        """Fresh weights for the batch's dimensions; normalisation from its scalars."""
        self._generator = torch.Generator().manual_seed(seed)
        self._d = batch.requests.shape[1]
        scalars = batch.scalars
        width = len(NAMES)
        some = len(scalars) > 1
        self.mean: Tensor = scalars.mean(0) if some else torch.zeros(width)
        # What never varied in training must not matter when it does: it is divided by much, not by nothing.
        spread = scalars.std(0) if some else torch.ones(width)
        self.spread: Tensor = torch.where(spread < 1e-3, torch.full_like(spread, 1e3), spread)
        positive = float((batch.quality * batch.weight).sum() / batch.weight.sum())
        alone = torch.ones(len(batch.quality), dtype=torch.bool)
        alone[batch.owner] = False
        if alone.any():
            weight = batch.weight[alone]
            positive = float((batch.quality[alone] * weight).sum() / weight.sum())
        start = float(torch.logit(torch.tensor(positive), eps=0.05))
        self.weights: dict[str, Tensor] = {
            # Nothing is read from the embeddings until `open_embeddings`.
            "low_rank": torch.zeros(3 * self._d, RANK),
            "topics": torch.zeros(self._d, TOPICS),
            "hidden_scalars": self._drawn(width, HIDDEN, width**-0.5),
            "hidden_pair": self._drawn(RANK, HIDDEN, RANK**-0.5),
            "hidden_topic": self._drawn(TOPICS, HIDDEN, TOPICS**-0.5),
            "hidden_bias": torch.zeros(HIDDEN),
            "out": self._drawn(HIDDEN, 2, 0.3 * HIDDEN**-0.5),
            "direct": torch.zeros(width, 2),
            "out_bias": torch.tensor(UNKNOWN_EFFECTS),
            "alone": torch.zeros(TOPICS, 1),
            "alone_bias": torch.full((1,), start),
        }
        for weight in self.weights.values():
            weight.requires_grad_(True)

    def qualities(self, batch: Batch, *, dropout: bool = False) -> tuple[Tensor, Tensor]:
        """Expected quality alone (rows,), and with each example by itself (examples,)."""
        alone, helps, harms = self.effects(batch, dropout=dropout)
        return alone, _with_one(alone, helps, harms, batch)

    def effects(self, batch: Batch, *, dropout: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Quality alone (rows,), and shares mended and spoilt by each example (examples,)."""
        w = self.weights
        alone = torch.sigmoid((self._topic(batch) @ w["alone"] + w["alone_bias"]).squeeze(1))
        helps, harms = torch.sigmoid(self.effect_logits(batch, dropout=dropout))
        return alone, helps, harms

    def effect_logits(self, batch: Batch, *, dropout: bool = False) -> Tensor:
        """Log-odds of the shares mended and spoilt by each example, (2, examples)."""
        w = self.weights
        scalars = ((batch.scalars - self.mean) / self.spread).clamp(-MOST_SPREADS, MOST_SPREADS)
        about = self._topic(batch)[batch.owner]
        if dropout:
            about = self._dropped(about)
        inside = scalars @ w["hidden_scalars"] + about @ w["hidden_topic"] + w["hidden_bias"]
        if self.reads_pairs:
            pair = self._pair(batch)
            inside = inside + (self._dropped(pair) if dropout else pair) @ w["hidden_pair"]
        hidden = torch.relu(inside)
        if dropout:
            hidden = self._dropped(hidden)
        return (hidden @ w["out"] + scalars @ w["direct"] + w["out_bias"]).T

    def _pair(self, batch: Batch) -> Tensor:
        asked = batch.requests[batch.owner]
        # Brought to the order of 1: coordinates of a unit vector are of the order of d to the power -1/2.
        products = [
            asked * batch.questions * self._d,
            (asked - batch.questions).abs() * self._d**0.5,
            asked * batch.answers * self._d,
        ]
        return torch.cat(products, 1) @ self.weights["low_rank"]

    def _topic(self, batch: Batch) -> Tensor:
        return torch.tanh(batch.requests * self._d**0.5 @ self.weights["topics"])

    def exported(self) -> dict[str, np.ndarray[Any, Any]]:
        """Weights for learning.training.scorer.graph.side_by_side."""
        w = {name: weight.detach().double() for name, weight in self.weights.items()}
        products = torch.cat([torch.full((self._d,), float(f)) for f in (self._d, self._d**0.5, self._d)])
        folded = {
            **w,
            "scale": 1 / self.spread.double(),
            "shift": -self.mean.double() / self.spread.double(),
            "low_rank": w["low_rank"] * products.double()[:, None],
            "topics": w["topics"] * self._d**0.5,
        }
        return {name: weight.float().numpy() for name, weight in folded.items()}

    def fit_alone(self, batch: Batch) -> None:
        """Quality alone by the request's embedding, from the rows without examples: logistic regression with a ridge.

        Before anything else, and from those rows only: requests that the engine gets right by itself would otherwise pass
        for requests that whatever was sent has helped. Few such rows leave it a constant.
        """
        without = torch.ones(len(batch.quality), dtype=torch.bool)
        without[batch.owner] = False
        if int(without.sum()) < LEAST_ALONE:
            return
        asked, quality = batch.requests[without] * self._d**0.5, batch.quality[without]
        weight = batch.weight[without] / batch.weight[without].mean()
        line = torch.zeros(self._d + 1, requires_grad=True)
        optimiser = torch.optim.LBFGS([line], lr=0.5, max_iter=100)

        def closure() -> Any:
            optimiser.zero_grad()
            each = torch.nn.functional.binary_cross_entropy_with_logits(
                asked @ line[:-1] + line[-1], quality, reduction="none"
            )
            value = (each * weight).sum() + ALONE_RIDGE * (line[:-1] ** 2).sum()
            value.backward()
            return value

        optimiser.step(closure)
        found = line.detach()
        if not bool(torch.isfinite(found).all()):
            return
        with torch.no_grad():
            self.weights["topics"][:, 0] = found[:-1] / MOST_LOGIT
            self.weights["alone"][0] = MOST_LOGIT
            self.weights["alone_bias"].fill_(float(found[-1]))

    def open_embeddings(self) -> None:
        """Lets the embeddings of pairs in, by random directions that hardly count yet."""
        self.reads_pairs = True
        with torch.no_grad():
            weight = self.weights["low_rank"]
            weight.copy_(self._drawn(len(weight), RANK, 0.1 * self._d**-0.5))

    def one_harm(self) -> None:
        """Makes harm the same for every example: only its bias counts."""
        with torch.no_grad():
            for name in ("out", "direct"):
                self.weights[name][:, 1] = 0.0

    def kept(self) -> dict[str, Tensor]:
        """A copy of the weights as they are now."""
        return {name: weight.detach().clone() for name, weight in self.weights.items()}

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Takes back what `kept` gave."""
        with torch.no_grad():
            for name, weight in weights.items():
                self.weights[name].copy_(weight)

    def _drawn(self, rows: int, columns: int, spread: float) -> Tensor:
        return torch.randn(rows, columns, generator=self._generator) * spread

    def _dropped(self, values: Tensor) -> Tensor:
        kept = torch.rand(values.shape, generator=self._generator) >= DROPOUT
        return values * kept / (1 - DROPOUT)


@dataclass(frozen=True, slots=True)
class Committee:
    """Networks fitted separately, from different seeds, and averaged: what only one of them believes counts for little."""

    members: tuple[Network, ...]

    def qualities(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """As Network.qualities, of the mean of the members' effects."""
        effects = [member.effects(batch) for member in self.members]
        alone, helps, harms = (torch.stack(each).mean(0) for each in zip(*effects, strict=True))
        return alone, _with_one(alone, helps, harms, batch)

    def exported(self, slope: float, offset: float) -> dict[str, np.ndarray[Any, Any]]:
        """Weights for learning.training.scorer.graph; log-odds of both qualities times `slope` plus `offset`."""
        line = {"slope": np.array([slope], np.float32), "offset": np.array([offset], np.float32)}
        return side_by_side([member.exported() for member in self.members]) | line


def _with_one(alone: Tensor, helps: Tensor, harms: Tensor, batch: Batch) -> Tensor:
    # Where the example holds the answer, nothing it might spoil is left to matter: no outcome could tell how harmful it is.
    return helps + (1 - helps) * alone[batch.owner] * (1 - harms)


def calibrated(quality: Tensor, slope: Tensor | float, offset: Tensor | float) -> Tensor:
    """A quality with its log-odds on another line."""
    return torch.sigmoid(slope * torch.logit(quality, eps=EPSILON) + offset)


def set_quality_of(alone: Tensor, with_one: Tensor, owner: Tensor) -> Tensor:
    """router.examples.set_quality.set_quality, differentiable: (rows,), (examples,), (examples,) to (rows,)."""
    a = alone.clamp(EPSILON, 1 - EPSILON)
    w = with_one.clamp(_EDGE, 1 - _EDGE)
    against = a[owner]
    none = torch.zeros_like(a)
    misses = none.index_add(0, owner, torch.log(((1 - w) / (1 - against)).clamp(max=1.0)))
    keeps = none.index_add(0, owner, torch.log((w / against).clamp(max=1.0)))
    return (1 - (1 - a) * misses.exp()) * keeps.exp()
