"""The seam between the recorder and what it keeps. A keeper runs on the recorder's thread and knows one kind of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Protocol, runtime_checkable

import structlog

from router.finished import Finished
from router.plan import Plan
from store.records import Vector

log = structlog.get_logger(__name__)

Kept = tuple[str, Future[Any] | str]
"""(kind, a write under way) or (kind, the reason why nothing is kept)."""


class Keeper(Protocol):
    """Keeps one kind of thing of a finished request."""

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """Yield what was handed to the store, or why not. `finished` has been read: its usage and cost are known."""
        ...


@runtime_checkable
class Gathering(Protocol):
    """A keeper that writes what it is given together: `keep` only remembers it, or says why not."""

    def write(self) -> Iterator[tuple[str, Future[Any], int]]:
        """(kind, a write under way, of how many) of all that was kept since it was last called."""
        ...


def vector_of(plan: Plan | None, text: str, embed: Callable[[str], Vector]) -> Vector | None:
    """Give the vector of a text that is kept: the plan's, where it is of this text, or a new one. Never raises.

    None where none can be made; learning.bank.background_embedding gives an example one later.
    """
    if plan is not None and plan.vector is not None and plan.embedded_text == text:
        return plan.vector
    try:
        return embed(text)
    except Exception as error:
        log.warning("embedding_failed", error=error)
        return None
