"""What the simulated models say: words that depend on the prompt, in lists where a step wants one."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from engines.chat import CHARACTERS_PER_TOKEN
from loadtest.applications.shapes import words

FIELD = "simulated"
"""A field of the chat body: {"items": 3} for a list, {"yes": 0.8} for a judge that says yes so often."""


def most_tokens(mean: int) -> int:
    """`max_tokens` of a step whose answers have so many tokens in the mean."""
    return mean * 3 // 2


def says(fields: Mapping[str, Any], prompt: str, most: int) -> Sequence[str]:
    """See benchmarks.batching.engine.Says: between a third of the most and the most, evenly."""
    chance = random.Random(prompt)
    how = fields.get(FIELD, {})
    if "yes" in how:
        return ["yes" if chance.random() < how["yes"] else "no"]
    key = str(chance.random())
    tokens = chance.randint(max(1, most // 3), most)
    if "items" not in how:
        return [words(key, tokens)]
    # Quotes, a comma and a blank are a token.
    each = max(1, tokens // how["items"] - 1)
    texts = [words(f"{key}/{n}", each).strip() for n in range(how["items"])]
    pieces = [f"{'[' if not n else ', '}{json.dumps(text)}" for n, text in enumerate(texts)]
    pieces[-1] += "]"
    return pieces


def question(key: str, tokens: int) -> str:
    """Of about so many tokens."""
    chance = random.Random(f"question/{key}")
    return words(f"question/{key}", chance.randint(tokens // 2, tokens * 3 // 2)).strip()


def characters(tokens: int) -> int:
    """Of so many tokens."""
    return tokens * CHARACTERS_PER_TOKEN
