"""Recent response times and lengths of an engine's answers, as exponentially weighted means: old answers stop counting."""

from __future__ import annotations

_WEIGHT = 0.1
"""Of the newest answer: about the last twenty count."""
_FORGETTING = 1.005


class Pace:
    """Seconds to the first chunk of streams, and to the end of any answer, and its tokens. None before the first."""

    __slots__ = ("answer_s", "answer_tokens", "first_chunk_s", "idle_first_chunk_s")

    def __init__(self) -> None:
        self.first_chunk_s: float | None = None
        self.idle_first_chunk_s: float | None = None
        """The fastest lately: what a stream's first chunk takes when nothing queues."""
        self.answer_s: float | None = None
        self.answer_tokens: float | None = None

    def began(self, seconds: float) -> None:
        """The first chunk of a stream came after so long, the wait for a free place included."""
        self.first_chunk_s = _mean(self.first_chunk_s, seconds)
        # It rises a little with every answer, so that an engine that became slower is believed in the end.
        fastest = self.idle_first_chunk_s
        self.idle_first_chunk_s = seconds if fastest is None else min(seconds, fastest * _FORGETTING)

    def ended(self, seconds: float) -> None:
        """An answer was complete after so long."""
        self.answer_s = _mean(self.answer_s, seconds)

    def said(self, tokens: int) -> None:
        """An answer was so long."""
        self.answer_tokens = _mean(self.answer_tokens, float(tokens))


def _mean(mean: float | None, newest: float) -> float:
    return newest if mean is None else mean + _WEIGHT * (newest - mean)
