"""Texts of about so many tokens, each another."""

from __future__ import annotations

import random
from pathlib import Path

_WORDS = sorted(set((Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split()))
_TOKENS_A_WORD = 2.5
"""Of this vocabulary, about."""


def text(draw: random.Random, tokens: int) -> str:
    """Words of the project's own page, drawn at random."""
    words = [draw.choice(_WORDS) for _ in range(max(1, round(tokens / _TOKENS_A_WORD) - 2))]
    return " ".join([*words, f"{draw.getrandbits(32):x}"])
