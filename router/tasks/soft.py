"""Reads how sure a teacher was of its label from the log-probabilities of its tokens, if the client asked for them.

The token with which a label begins decides which label it is, as long as no two labels begin alike with it: Cache & Distil,
appendix A, reads the top tokens in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_LEAST_TOLD = 0.5
"""Share of the probability that must fall on labels: else they are no probabilities of labels."""
_MARKS = " \"'`*\n\t"


def soft_labels(choice: Mapping[str, Any], before: str, labels: Sequence[str]) -> dict[str, float] | None:
    """Probabilities of the labels, summing to 1; None if they cannot be told.

    `choice` as OpenAI gives it, with its `logprobs`; `before`: what the answer has in front of its label.
    """
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not labels:
        return None
    end = 0
    for token in content:
        if not isinstance(token, dict) or not isinstance(token.get("token"), str):
            return None
        start, end = end, end + len(token["token"])
        if end > len(before) and token["token"].strip(_MARKS):
            return _told(token.get("top_logprobs"), before[start:], labels)
    return None


def _told(top: Any, before: str, labels: Sequence[str]) -> dict[str, float] | None:
    told: dict[str, float] = {}
    for each in top if isinstance(top, list) else ():
        text, log = (each.get("token"), each.get("logprob")) if isinstance(each, dict) else (None, None)
        if not isinstance(text, str) or not isinstance(log, int | float) or not math.isfinite(log):
            return None
        begins = text.removeprefix(before).strip(_MARKS).casefold()
        meant = [label for label in labels if begins and label.casefold().startswith(begins)]
        if len(meant) > 1 and begins not in {label.casefold() for label in meant}:
            return None
        if meant:
            label = min(meant, key=len)
            told[label] = told.get(label, 0.0) + math.exp(log)
    total = sum(told.values())
    return {label: p / total for label, p in told.items()} if total >= _LEAST_TOLD else None
