"""How many tokens a request may take: counted and bounded before it is asked, and learnt from those that were.

The input is estimated from the body's size, times how far such estimates of this model fell short of its engines' own counts
lately. The output is what the request allows; else what only one in a hundred of the model's recent answers passed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cachetools import LRUCache

from engines.chat import CHARACTERS_PER_TOKEN, Usage

OUTPUT_FIELDS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
"""What a request may call the most that it wants to be answered; the first that is given counts."""
MOST_TOKENS = 10**9
"""Whatever a request says, more than this no engine answers."""
_MODELS = 1000
_RECENT = 200
_ENOUGH = 20
"""Fewer answers than this say nothing of a rare one."""
_FIRST_RATIO = 1.25
_PER_IMAGE = 1500
"""Tokens of a picture, unless more recent ones show more."""
_INLINE = ";base64,"


@dataclass(frozen=True, slots=True)
class Expected:
    """Tokens of one request."""

    input_tokens: int
    output_tokens: int
    """Of all the answers that it asks for together."""
    said: bool
    """Whether the request itself says the most output."""
    estimate: int
    """What was made of the body's size, without what was learnt."""


class Expectations:
    """See the module. Safe to use from any thread."""

    def __init__(self, unknown_output_tokens: int) -> None:
        """`unknown_output_tokens`: of an answer of a model of which nothing is known, and whose request sets no limit."""
        self._unknown = unknown_output_tokens
        self._lock = threading.Lock()
        self._of: LRUCache[str, _Model] = LRUCache(_MODELS)

    def expected(self, model: str, size_bytes: int, fields: Mapping[str, Any]) -> Expected:
        """What a request for `model` may take, whose body is `size_bytes` long and says `fields`."""
        known = self._of.get(model)
        answers = fields.get("n")
        n = answers if isinstance(answers, int) and answers > 1 else 1
        output = most_output(fields)
        said = output is not None
        if output is None:
            output = known.output_p99 if known is not None and known.output_p99 is not None else self._unknown
        estimate = estimated_input(size_bytes, fields)
        ratio = known.ratio if known is not None else _FIRST_RATIO
        return Expected(
            min(MOST_TOKENS, round(estimate * ratio) + 1),
            min(MOST_TOKENS, output * min(n, MOST_TOKENS)),
            said,
            estimate,
        )

    def learn(self, model: str, estimate: int, answers: int, usage: Usage) -> None:
        """An engine counted `usage` for a request of `answers` answers whose input was taken for `estimate` tokens."""
        if usage.estimated:
            return
        with self._lock:
            known = self._of.get(model)
            if known is None:
                known = self._of[model] = _Model()
            known.learn(usage.prompt_tokens / max(1, estimate), usage.completion_tokens // max(1, answers))


class _Model:
    """What one model's recent answers took."""

    __slots__ = ("_outputs", "_ratios", "output_p99", "ratio")

    def __init__(self) -> None:
        self._outputs: deque[int] = deque(maxlen=_RECENT)
        self._ratios: deque[float] = deque(maxlen=_RECENT)
        self.output_p99: int | None = None
        self.ratio = _FIRST_RATIO

    def learn(self, ratio: float, output: int) -> None:
        self._outputs.append(output)
        self._ratios.append(ratio)
        # An input is never taken for smaller than it is estimated: only that it is larger was ever seen to matter.
        enough = len(self._ratios) >= _ENOUGH
        self.ratio = max(1.0 if enough else _FIRST_RATIO, *self._ratios, 1.0)
        if enough:
            ranked = sorted(self._outputs)
            self.output_p99 = max(1, ranked[min(len(ranked) - 1, int(len(ranked) * 0.99))])


def most_output(fields: Mapping[str, Any]) -> int | None:
    """The most tokens of one answer that a request wants; None where it does not say, or says no such number."""
    for name in OUTPUT_FIELDS:
        given = fields.get(name)
        if isinstance(given, int) and not isinstance(given, bool) and given > 0:
            return min(given, MOST_TOKENS)
    return None


def estimated_input(size_bytes: int, fields: Mapping[str, Any]) -> int:
    """Tokens of a body, roughly, of which JSON's own signs are part; a file or picture within counts as one picture."""
    files, files_size = (
        _inline_files(fields) if size_bytes > 2 * CHARACTERS_PER_TOKEN * _PER_IMAGE else (0, 0)
    )
    return -(-max(0, size_bytes - files_size) // CHARACTERS_PER_TOKEN) + files * _PER_IMAGE


def _inline_files(value: Any) -> tuple[int, int]:
    """How many files stand in a body as base64, and their characters. Walks the body without recursion."""
    count = size = 0
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            if one.startswith("data:") and _INLINE in one[:200]:
                count, size = count + 1, size + len(one)
        elif isinstance(one, Mapping):
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
    return count, size
