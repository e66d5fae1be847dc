"""Answers of engines, read into one object, for tests of what is done with them."""

from __future__ import annotations

from collections.abc import Callable

from engines.answers.answer import Assembled, Merged, assembled
from engines.answers.choices import Choices


def from_events(body: bytes, merge: Callable[[], Merged] = Choices) -> Assembled | None:
    """An answer that came as a stream."""
    return assembled(body, merge(), streamed=True)


def from_json(body: bytes, merge: Callable[[], Merged] = Choices) -> Assembled | None:
    """An answer that came in one piece."""
    return assembled(body, merge(), streamed=False)
