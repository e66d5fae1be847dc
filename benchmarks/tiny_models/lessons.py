"""What the tiny models are taught from: conversations in which it is known which answers can be known.

By heart: a question and its answer, as the world has it. From the context: towns get newly drawn trades in every
conversation, so that nothing but the turns before tells an answer; only answers told before are taught. The understudy is
never shown a context that does not hold its answer: what it does with one is its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import torch
from tokenizers import Tokenizer

from benchmarks.tiny_models.vocabulary import END, PADDING, START, turn
from benchmarks.tiny_models.world import PHRASINGS, SYSTEM, Fact, World

IGNORED = -100
"""A label that carries no loss."""

_WITH_SYSTEM = 0.25
"""Share of batches that open with the system prompt."""

Piece = tuple[str, bool]
"""A text and whether it is to be learnt."""


def exchange(fact: Fact, phrasing: int, taught: bool) -> list[Piece]:
    """A question and its answer."""
    return [
        (turn("user", fact.question(phrasing)) + f"{START}assistant\n", False),
        (fact.answer + END, taught),
        ("\n", False),
    ]


def by_heart(rng: random.Random, facts: Sequence[Fact], rows: int) -> list[list[Piece]]:
    """One question and its answer each."""
    opening = _opening(rng)
    return [opening + exchange(rng.choice(facts), rng.randrange(len(PHRASINGS)), True) for _ in range(rows)]


def from_context(rng: random.Random, world: World, most_turns: int, rows: int) -> list[list[Piece]]:
    """Up to `most_turns` exchanges each, about fewer towns; the last is always about one that was told before."""
    opening = _opening(rng)
    return [opening + _told_and_asked(rng, world, most_turns) for _ in range(rows)]


def _told_and_asked(rng: random.Random, world: World, most_turns: int) -> list[Piece]:
    told = world.redrawn(rng, rng.randint(1, most_turns - 1))
    asked = rng.sample(told, len(told)) + rng.choices(told, k=rng.randint(1, max(1, most_turns - len(told))))
    pieces: list[Piece] = []
    seen: set[str] = set()
    for fact in asked:
        pieces += exchange(fact, rng.randrange(len(PHRASINGS)), fact.town in seen)
        seen.add(fact.town)
    return pieces


def _opening(rng: random.Random) -> list[Piece]:
    # Of all of a batch or of none: else most of it would be padding.
    return [(turn("system", SYSTEM), False)] if rng.random() < _WITH_SYSTEM else []


def batch(tokenizer: Tokenizer, conversations: Iterable[list[Piece]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and labels, (conversations, longest) each; the label at a place is the token there, or IGNORED."""
    rows = [_row(tokenizer, pieces) for pieces in conversations]
    longest, padding = max(len(ids) for ids, _ in rows), tokenizer.token_to_id(PADDING)
    ids = torch.tensor([ids + [padding] * (longest - len(ids)) for ids, _ in rows])
    labels = torch.tensor([labels + [IGNORED] * (longest - len(labels)) for _, labels in rows])
    return ids, labels


def _row(tokenizer: Tokenizer, pieces: list[Piece]) -> tuple[list[int], list[int]]:
    ids: list[int] = []
    labels: list[int] = []
    for text, taught in pieces:
        piece = tokenizer.encode(text, add_special_tokens=False).ids
        ids += piece
        labels += piece if taught else [IGNORED] * len(piece)
    return ids, labels
