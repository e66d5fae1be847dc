"""How many tokens a request may take: counted and bounded before it is asked, and learnt from those that were.

The input is estimated from the body's size, times how far such estimates of this model fell short of its engines' own counts
lately. The output is what the request allows; else what only one in a hundred of the model's recent answers passed.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from engines.chat import CHARACTERS_PER_TOKEN, Usage
from engines.errors import RequestError

N = TypeVar("N", int, float)

OUTPUT_FIELDS: Mapping[str, tuple[str, ...]] = {
    "chat": ("max_completion_tokens", "max_tokens"),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
    "completions": ("max_tokens",),
}
"""What each API calls the most that a request wants to be answered. Another API's name says nothing: no engine reads it."""
_HOW_MANY = ("n", "best_of")
"""How many answers a request may ask for."""
MOST_TOKENS = 10**9
"""Whatever a request says, more than this no engine answers."""
_MODELS = 1000
_RECENT = 200
_ENOUGH = 20
"""Fewer answers than this say nothing of a rare one."""
_FIRST_RATIO = 1.25
_PER_IMAGE = 1500
"""Tokens of a picture, unless more recent ones show more."""
_INLINE = re.compile(r"data:(?:image|audio|video|application/pdf)[^,]{0,100};base64,")
_OF_FILES = frozenset({"url", "image_url", "audio_url", "video_url", "file_url", "file_data", "data"})
"""Names whose value may be a file. Anywhere else a text that looks like one is text."""
_MOST_PER_ESTIMATE = float(CHARACTERS_PER_TOKEN)
"""No token is shorter than a byte. What took more was not in the body, and says nothing of the next one."""


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

    def __init__(self, unknown_output_tokens: int = 4096) -> None:
        """`unknown_output_tokens`: of an answer of a model of which nothing is known, and whose request sets no limit."""
        self._unknown = unknown_output_tokens
        self._lock = threading.Lock()
        self._of: dict[str, _Model] = {}

    def expected(self, model: str, size_bytes: int, fields: Mapping[str, Any], api: str) -> Expected:
        """What a request of an API for `model` may take, whose body is `size_bytes` long and says `fields`."""
        n = answers_asked(fields, api)
        output = most_output(fields, api)
        said = output is not None
        estimate = estimated_input(size_bytes, fields)
        with self._lock:
            known = self._of.get(model, _UNKNOWN)
            ratio = known.ratio
            if output is None:
                output = known.rare_output() or self._unknown
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
            # The model that was heard of last stands last.
            known = self._of.pop(model, None)
            if known is None:
                known = _Model()
            self._of[model] = known
            if len(self._of) > _MODELS:
                del self._of[next(iter(self._of))]
            ratio = min(_MOST_PER_ESTIMATE, usage.prompt_tokens / max(1, estimate))
            known.learn(ratio, usage.completion_tokens // max(1, answers))


class _Model:
    """What one model's recent answers took."""

    __slots__ = ("_outputs", "_ranked_outputs", "_ranked_ratios", "_ratios", "ratio")

    def __init__(self) -> None:
        self._outputs: deque[int] = deque()
        self._ratios: deque[float] = deque()
        self._ranked_outputs: list[int] = []
        self._ranked_ratios: list[float] = []
        self.ratio = _FIRST_RATIO

    def learn(self, ratio: float, output: int) -> None:
        _among(self._outputs, self._ranked_outputs, output)
        _among(self._ratios, self._ranked_ratios, ratio)
        # An input is never taken for smaller than it is estimated: only that it is larger was ever seen to matter.
        least = 1.0 if len(self._ratios) >= _ENOUGH else _FIRST_RATIO
        self.ratio = max(least, self._ranked_ratios[-1])

    def rare_output(self) -> int | None:
        """What one in a hundred passed; None where too few are known."""
        ranked = self._ranked_outputs
        if len(ranked) < _ENOUGH:
            return None
        return max(1, ranked[min(len(ranked) - 1, int(len(ranked) * 0.99))])


_UNKNOWN = _Model()


def _among(recent: deque[N], ranked: list[N], new: N) -> None:
    """Add one to the recent ones, and to the same in order of size; the oldest of too many goes."""
    if len(recent) == _RECENT:
        del ranked[bisect_left(ranked, recent.popleft())]
    recent.append(new)
    insort(ranked, new)


def most_output(fields: Mapping[str, Any], api: str) -> int | None:
    """The most tokens of one answer that a request wants; None where it does not say, or says no such number.

    Of two names that its API has, the larger number: which one an engine heeds is not known.
    """
    given = [fields.get(name) for name in OUTPUT_FIELDS.get(api, ())]
    found = [one for one in given if isinstance(one, int) and not isinstance(one, bool) and one > 0]
    return min(max(found), MOST_TOKENS) if found else None


def answers_asked(fields: Mapping[str, Any], api: str) -> int:
    """How many answers a request makes an engine write: also those never shown, and those to each of its prompts."""
    asked = [fields.get(name) for name in _HOW_MANY]
    n = max([1, *(one for one in asked if isinstance(one, int))])
    prompts = fields.get("prompt") if api == "completions" else None
    if isinstance(prompts, list) and prompts and not isinstance(prompts[0], int):
        n *= len(prompts)
    return min(n, MOST_TOKENS)


def check_numbers(fields: Mapping[str, Any], api: str) -> None:
    """Refuse what one engine may take for a number and another not, where it decides what a request may take.

    Raises RequestError.
    """
    if api not in OUTPUT_FIELDS:
        return
    for name in (*OUTPUT_FIELDS[api], *_HOW_MANY):
        given = fields.get(name)
        if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 0):
            raise RequestError(
                f"{name} must be a whole number that is not negative: this key's output is limited.",
                code="invalid_value",
                param=name,
            )


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
        if isinstance(one, Mapping):
            for name, value in one.items():
                if not isinstance(value, str):
                    left.append(value)
                elif name in _OF_FILES and _INLINE.match(value):
                    count, size = count + 1, size + len(value)
        elif isinstance(one, list):
            left.extend(one)
    return count, size
