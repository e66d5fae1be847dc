"""A request, its examples and the engines become the numbers that routing is learnt from: named, versioned, one function.

What is logged with a decision is what these functions returned, and training reads the log: the two can never differ.
Only numbers known before the answer are here; none holds text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

VERSION = "1"
"""Changes with any name or meaning below. Rows of another version are not trained on."""

_LOOKED_AT = 4000
_MANY_EXAMPLE_TOKENS = 4000
_CODE = ("```", "def ", "#include", "=>", "return ", "SELECT ", "function ", ";\n", "import ", "</")
_MATHS = re.compile(r"[=+*/^<>] ?-?\d|\\frac|\\sqrt|[∫∑√≤≥]")
# Words and substrings instead of one expression each: expressions cost more than all the rest of a decision.
_CHOICES = (
    ("\nA", "\nB", "\nC"),
    ("\n(A", "\n(B", "\n(C"),
    ("\n1.", "\n2.", "\n3."),
    ("\n1)", "\n2)", "\n3)"),
)
_CLASSIFY = frozenset(
    [
        "classify",
        "categorize",
        "categorise",
        "label",
        "sentiment",
        "detect",
        "true",
        "false",
        "following",
        "category",
    ]
)
_WRITE = frozenset(
    [
        "write",
        "draft",
        "compose",
        "essay",
        "story",
        "poem",
        "email",
        "mail",
        "letter",
        "rewrite",
        "rephrase",
        "summarize",
    ]
)
_WHY = frozenset(
    ["why", "explain", "prove", "derive", "show", "calculate", "compute", "many", "much", "solve", "find"]
)
_ASKS = frozenset(["who", "what", "when", "where", "which", "whose"])
_NOT = frozenset(["not", "except", "never", "least", "cannot", "incorrect", "false"])
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Examples:
    """What the combiner chose to send along, in a few numbers."""

    count: int = 0
    tokens: int = 0
    gain: float = 0.0
    """Predicted gain in quality from all of them together, -1..1."""
    best_similarity: float = 0.0
    """Of the nearest of them, cosine."""
    spread: float = 0.0
    """Best less worst similarity among them."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is looked at of a request."""

    text: str
    """The question as it was embedded: the last user turn."""
    turns: int = 1
    """Messages in the conversation, the system prompt not counted."""
    prompt_tokens: int = 0
    """Of the whole request, without examples; estimated."""
    nearest: float = 0.0
    """Cosine to the nearest past request of the tenant; 0 when nothing is known."""


def _log(value: float, full: float) -> float:
    """0 at 0, 1 at `full`, logarithmic: ten tokens more matter to a short request only."""
    return min(1.5, math.log1p(max(0.0, value)) / math.log1p(full))


def text_features(text: str) -> dict[str, float]:
    """Lengths, shape of the task and language of `text`, from its first 4,000 characters: each about 0..1.

    Shapes are cues, not a classification: a request may have several or none.
    """
    head = text[:_LOOKED_AT]
    words = _WORD.findall(head)
    numbers = _DIGITS.findall(head)
    letters = sum(map(len, words))
    ascii_letters = letters if head.isascii() else sum(len(w) for w in words if w.isascii())
    many = max(1, len(words))
    said = {word.lower() for word in words}
    return {
        "characters": _log(len(text), 8000),
        "words": _log(len(words), 1000),
        "lines": _log(head.count("\n"), 100),
        "word_length": min(1.0, letters / many / 10),
        "long_words": sum([len(w) > 8 for w in words]) / many,
        "distinct_words": len(said) / many,
        "capitals": min(1.0, sum([w[0].isupper() for w in words]) / many),
        "numbers": _log(len(numbers), 50),
        "decimals": float(any("." in n for n in numbers)),
        "questions": min(1.0, head.count("?") / 3),
        "blanks": float("__" in head),
        "code": float(any(sign in head for sign in _CODE)),
        "maths": float(_MATHS.search(head) is not None),
        "multiple_choice": float(any(all(sign in head for sign in signs) for signs in _CHOICES)),
        "classification": float(not said.isdisjoint(_CLASSIFY)),
        "writing": float(not said.isdisjoint(_WRITE)),
        "reasoning": float(not said.isdisjoint(_WHY)),
        "factual": float(not said.isdisjoint(_ASKS)),
        "negation": float(not said.isdisjoint(_NOT)),
        "long": float(len(text) > 2000),
        "latin": ascii_letters / letters if letters else 1.0,
    }


def context_features(
    request: Request,
    examples: Examples,
    *,
    quality_alone: float,
    quality_with: float,
    weights: tuple[float, float, float],
    familiarity: float,
) -> dict[str, float]:
    """Everything about the request that does not depend on the action, by name.

    `weights` are the dials (quality, cost, latency) of router.choosing.reward; `familiarity` is 0..1. Values that are not
    finite become 0: a broken upstream stage must not poison what is learnt.
    """
    features = text_features(request.text)
    features |= {
        "turns": _log(request.turns, 50),
        "prompt_tokens": _log(request.prompt_tokens, 16_000),
        "nearest": request.nearest,
        "examples": _log(examples.count, 8),
        "example_tokens": _log(examples.tokens, _MANY_EXAMPLE_TOKENS),
        "gain": examples.gain,
        "best_similarity": examples.best_similarity,
        "similarity_spread": examples.spread,
        "quality_alone": quality_alone,
        "quality_with": quality_with,
        "familiarity": familiarity,
        "weight_quality": weights[0],
        "weight_cost": weights[1],
        "weight_latency": weights[2],
    }
    return {name: value if math.isfinite(value) else 0.0 for name, value in features.items()}


NOT_OF_LABELS = frozenset(
    {
        "nearest",
        "examples",
        "example_tokens",
        "gain",
        "best_similarity",
        "similarity_spread",
        "quality_alone",
        "quality_with",
        "familiarity",
        "weight_quality",
        "weight_cost",
        "weight_latency",
    }
)
"""Context that a file of labels knows nothing of. It is left out, not set to a constant: a constant would be learnt from
as if it were an intercept, and shift every estimate once traffic brings other values."""


def action_features(
    *,
    is_reference: bool,
    rank: float,
    with_examples: bool,
    relative_cost: float,
    relative_latency: float,
    utilisation: float,
    healthy: bool,
) -> dict[str, float]:
    """What is known of an action before it is taken, by name. `rank` is 0 for the smallest engine, 1 for the reference."""
    features = {
        "is_reference": float(is_reference),
        "rank": rank,
        "with_examples": float(with_examples),
        "relative_cost": relative_cost,
        "relative_latency": relative_latency,
        "utilisation": min(2.0, utilisation),
        "healthy": float(healthy),
    }
    return {name: value if math.isfinite(value) else 0.0 for name, value in features.items()}


NOT_FOR_QUALITY = frozenset(
    {
        "weight_quality",
        "weight_cost",
        "weight_latency",
        "relative_cost",
        "relative_latency",
        "utilisation",
        "healthy",
        "familiarity",
    }
)
"""Logged for evaluation, but no model of quality may use them: how good an answer is does not depend on what it costs,
and familiarity is known only after the model was asked."""


def spread(similarities: Sequence[float]) -> float:
    """Best less worst; 0 for fewer than two."""
    return max(similarities) - min(similarities) if len(similarities) > 1 else 0.0


TEXT_NAMES: tuple[str, ...] = tuple(text_features(""))
"""What `text_features` gives, in its order."""
