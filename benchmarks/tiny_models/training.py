"""Trains one tiny model on lessons, within a number of steps, and examines what it learnt."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch.nn import functional

from benchmarks.tiny_models.lessons import IGNORED, Piece, batch
from benchmarks.tiny_models.network import Llama

Draw = Callable[[int], list[list[Piece]]]
"""Makes so many conversations."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long and how fast. `rows`: conversations per step."""

    steps: int
    rows: int
    learning_rate: float
    warm_up_steps: int = 50


def train(model: Llama, tokenizer: Tokenizer, draw: Draw, pace: Pace, say: Callable[[str], None]) -> None:
    """AdamW, the rate rising, then falling to nothing. On one thread the same seeds give the same weights."""
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=pace.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    began = time.process_time()
    model.train()
    for step in range(pace.steps):
        rising, falling = (step + 1) / pace.warm_up_steps, 1 - step / pace.steps
        for group in optimiser.param_groups:
            group["lr"] = pace.learning_rate * min(1.0, rising, max(0.02, falling * 1.25))
        ids, labels = batch(tokenizer, draw(pace.rows))
        logits, wanted = taught(model, ids, labels)
        loss = functional.cross_entropy(logits.float(), wanted)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 50 == 0 or step == pace.steps - 1:
            right = (logits.argmax(-1) == wanted).float().mean().item()
            spent = time.process_time() - began
            say(
                f"step {step}: loss {loss.item():.3f}, tokens right {right:.3f}, {spent:.0f} CPU s, length {ids.shape[1]}"
            )


def taught(model: Llama, ids: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits before every labelled token, (tokens, vocabulary), and those tokens. Logits of the rest are not computed: with
    a vocabulary as wide as this they would cost more than the layers."""
    places = labels[:, 1:] != IGNORED
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model.logits(model(ids)[:, :-1][places])
    return logits, labels[:, 1:][places]


@torch.no_grad()
def share_right(
    model: Llama, tokenizer: Tokenizer, conversations: Sequence[list[Piece]], rows: int = 50
) -> float:
    """Share of conversations all of whose taught tokens come first in the model's own ranking: what greedy decoding says."""
    model.eval()
    right = 0
    for start in range(0, len(conversations), rows):
        ids, labels = batch(tokenizer, conversations[start : start + rows])
        said = model.logits(model(ids)[:, :-1]).argmax(-1)
        wanted = labels[:, 1:]
        right += int(((said == wanted) | (wanted == IGNORED)).all(1).sum())
    return right / len(conversations)
