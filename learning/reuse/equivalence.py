"""Is the fresh answer the remembered one in other words? The label everything learnt about reuse rests on.

The default only tells apart what is not equal once case, spacing and punctuation are gone, so it errs towards "wrong" and
reuse is earned slowly, or never where a model words every answer anew. A judge may take its place. Refuses to know where
the answers come from.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

Equivalence = Callable[[str, str, str], bool | None]
"""(question asked, remembered answer, fresh answer) to whether the first answer would have done; None if it cannot tell.

It runs off the request's path and may be slow. The error rate that is bounded is the error rate as this sees it.
"""

_BETWEEN = re.compile(r"[^\w%$€£¥+\-./<>=]+")
_EDGES = re.compile(r"(?:(?<=\s)|^)[./\-]+(?=\s|$)|[./\-]+(?=\s|$)")


def same_text(question: str, remembered: str, fresh: str) -> bool | None:
    """Tell if two answers are the same text but for case, spacing and punctuation. An empty answer is never right."""
    ours, theirs = normalised(remembered), normalised(fresh)
    return bool(ours) and ours == theirs


def normalised(answer: str) -> str:
    """The answer in compatibility form, folded, with single spaces; signs that carry meaning (-, %, <, decimals) stay."""
    folded = _BETWEEN.sub(" ", unicodedata.normalize("NFKC", answer).casefold())
    return " ".join(_EDGES.sub(" ", folded).split())
