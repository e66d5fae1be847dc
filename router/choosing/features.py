"""The features that routing is learnt from: a request, its examples and the engines as named, versioned numbers.

The functions here return what is logged with a decision, and training reads the log, so serving and training use the same
numbers. Every feature is known before the answer, and none holds text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

VERSION = "1"
"""Raised with any change of a meaning below. Rows of another version are not trained on; a name may come or go."""

_LOOKED_AT = 4000
_MANY_EXAMPLE_TOKENS = 4000
_CODE = ("```", "def ", "#include", "=>", "return ", "SELECT ", "function ", ";\n", "import ", "</")
_MATHS = re.compile(r"[=+*/^<>] ?-?\d|\\frac|\\sqrt|[∫∑√≤≥]")
# Words and substrings instead of one expression each: expressions cost more than the rest of a decision.
_CHOICES = (
    ("\nA", "\nB", "\nC"),
    ("\n(A", "\n(B", "\n(C"),
    ("\n1.", "\n2.", "\n3."),
    ("\n1)", "\n2)", "\n3)"),
)
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Examples:
    """The chosen examples, in a few numbers."""

    count: int = 0
    tokens: int = 0
    gain: float = 0.0
    """Predicted gain in quality from all of them together, -1..1."""
    best_similarity: float = 0.0
    """Cosine of the nearest of them."""
    spread: float = 0.0
    """Largest less smallest cosine among them."""


@dataclass(frozen=True, slots=True)
class Request:
    """The parts of a request that features are computed from."""

    text: str
    """The question as it was embedded: the last user turn."""
    turns: int = 1
    """Messages in the conversation, the system prompt not counted."""
    prompt_tokens: int = 0
    """Estimated tokens of the whole request without examples, and of the longest answer it may get."""
    nearest: float = 0.0
    """Cosine of the nearest past request of the tenant; 0 when there is none."""


def _log(value: float, full: float) -> float:
    """Logarithmic scale, 0 at 0 and 1 at `full`: ten tokens more matter to a short request only."""
    return min(1.5, math.log1p(max(0.0, value)) / math.log1p(full))


def text_features(text: str) -> dict[str, float]:
    """Length, looks and script of `text`, from its first 4,000 characters; each about 0..1."""
    head = text[:_LOOKED_AT]
    words = _WORD.findall(head)
    numbers = _DIGITS.findall(head)
    letters = len(words) if head.isascii() else sum(map(len, words))
    ascii_letters = letters if head.isascii() else sum(len(w) for w in words if w.isascii())
    return {
        "characters": _log(len(text), 8000),
        "words": _log(len(words), 1000),
        "lines": _log(head.count("\n"), 100),
        "numbers": _log(len(numbers), 50),
        "decimals": float(any("." in n for n in numbers)),
        "questions": min(1.0, head.count("?") / 3),
        "blanks": float("__" in head),
        "code": float(any(sign in head for sign in _CODE)),
        "maths": float(_MATHS.search(head) is not None),
        "multiple_choice": float(any(all(sign in head for sign in signs) for signs in _CHOICES)),
        "latin": ascii_letters / letters if letters else 1.0,
    }


def request_features(request: Request) -> dict[str, float]:
    """Compute the features of a request that are known whatever becomes of it, by name."""
    return text_features(request.text) | {
        "turns": _log(request.turns, 50),
        "prompt_tokens": _log(request.prompt_tokens, 16_000),
    }


def context_features(
    request: Request,
    examples: Examples,
    *,
    quality_alone: float,
    quality_with: float,
    weights: tuple[float, float, float],
) -> dict[str, float]:
    """The features of the request that do not depend on the action, by name.

    `weights` are (quality, cost, latency) of router.choosing.reward. Values that are not finite become 0: a broken stage
    must not poison what is learnt.
    """
    features = request_features(request) | {
        "nearest": request.nearest,
        "examples": _log(examples.count, 8),
        "example_tokens": _log(examples.tokens, _MANY_EXAMPLE_TOKENS),
        "gain": examples.gain,
        "best_similarity": examples.best_similarity,
        "similarity_spread": examples.spread,
        "quality_alone": quality_alone,
        "quality_with": quality_with,
        "weight_quality": weights[0],
        "weight_cost": weights[1],
        "weight_latency": weights[2],
    }
    return {name: value if math.isfinite(value) else 0.0 for name, value in features.items()}


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
    """The features of an action before it is taken, by name. `rank` is 0 for the smallest engine, 1 for the reference."""
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
"""Features that are logged for evaluation but that no model of quality may use: the quality of an answer does not depend on
what it costs. Familiarity is one that older logs have."""


def spread(similarities: Sequence[float]) -> float:
    """Largest less smallest similarity; 0 for fewer than two."""
    return max(similarities) - min(similarities) if len(similarities) > 1 else 0.0
