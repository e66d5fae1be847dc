"""How long an engine takes for a token of an answer, by the tokens that it holds meanwhile: a line through measurements.

Decoding reads the keys and values of all requests in each step, so the time of a token grows linearly with the tokens held
(Parrot, OSDI 2024, section 5.4, keeps engines below a threshold for this reason; there the operator sets it).
"""

from __future__ import annotations

_FORGETS = 0.98
"""The weight of what was measured before, per answer: the last fifty count."""
_FIRST = 20
"""Answers before anything is said."""
_LEAST_SPREAD = 0.1
"""Standard deviation of the tokens held, by their mean: below it a line's slope is chance."""
_BEYOND = 2.0
"""No more is let in than so many times the most that was measured: beyond, the line is a guess."""
_NEARLY = 1.1
"""Of the time that a token takes when nothing else is held: less is not to be had."""
_STEP = 0.25
"""Of the tokens held, by which they change at most while the slope is not known."""


class DecodingCurve:
    """Weighted least squares of seconds per token over tokens held."""

    __slots__ = ("_capped", "_held", "_most_held", "_product", "_square", "_token_s", "_weight", "answers")

    def __init__(self) -> None:
        self.answers = 0
        self._capped = False
        self._weight = self._held = self._token_s = self._square = self._product = self._most_held = 0.0

    def measured(self, held_tokens: float, token_s: float) -> None:
        """An answer took so many seconds per token after its first, and the engine held so many tokens meanwhile."""
        self.answers += 1
        self._weight = self._weight * _FORGETS + 1
        self._held = self._held * _FORGETS + held_tokens
        self._token_s = self._token_s * _FORGETS + token_s
        self._square = self._square * _FORGETS + held_tokens * held_tokens
        self._product = self._product * _FORGETS + held_tokens * token_s
        self._most_held = max(self._most_held * _FORGETS, held_tokens)

    def most_tokens(self, slo_s: float) -> int | None:
        """The tokens held at which a token takes `slo_s` seconds; None before that is known, and while none is too many.

        Where the tokens held hardly varied they are changed in proportion to the time, a quarter at a time: what is measured
        then tells the slope.
        """
        if self.answers < _FIRST:
            return None
        held, token_s = self._held / self._weight, self._token_s / self._weight
        variance = self._square / self._weight - held * held
        slope = (self._product / self._weight - held * token_s) / variance if variance > 0 else 0.0
        if slope > 0 and variance >= (_LEAST_SPREAD * held) ** 2:
            alone_s = max(0.0, token_s - slope * held)
            # An SLO that the engine cannot keep when it is alone is kept as nearly as it may be.
            wanted_s = max(slo_s, alone_s * _NEARLY)
            most = min(held + (wanted_s - token_s) / slope, _BEYOND * self._most_held)
        elif token_s > slo_s or self._capped:
            most = held * min(1 + _STEP, max(1 - _STEP, slo_s / token_s))
        else:
            return None
        self._capped = True
        return max(1, int(most))
