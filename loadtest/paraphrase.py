"""Rewords a question without a model: frames around it, a few synonyms, a changed beginning.

This makes different bytes with the same meaning; it does not measure how well a semantic cache understands English. For
that, give rows with their own `paraphrases`.
"""

from __future__ import annotations

import re

_FRAMES = (
    "Could you tell me: {}",
    "{} Please answer in your own words.",
    "I would like to know this. {}",
    "Please help me with the following. {}",
    "Here is my question: {}",
    "A friend asked me: {}",
    "{} Thank you.",
    "Quick question: {}",
)
_SYNONYMS = {
    "big": "large",
    "large": "big",
    "begin": "start",
    "start": "begin",
    "make": "create",
    "create": "make",
    "show": "display",
    "list": "enumerate",
    "explain": "describe",
    "describe": "explain",
    "find": "locate",
    "quick": "fast",
    "fast": "quick",
    "write": "compose",
    "best": "finest",
    "help": "assist",
}
_WORD = re.compile(r"\b(" + "|".join(_SYNONYMS) + r")\b")


def reword(text: str, variant: int) -> str:
    """The text in other words; the same `variant` (>= 1) always gives the same rewording, never the text itself."""
    frame = _FRAMES[variant % len(_FRAMES)]
    if (variant // len(_FRAMES)) % 2:
        text = _WORD.sub(lambda found: _SYNONYMS[found.group(1)], text)
    return frame.format(text) if "{" not in text else frame.replace("{}", text)
