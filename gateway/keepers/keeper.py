"""The seam between the recorder and what it keeps. A keeper runs on the recorder's thread and knows one kind of memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Protocol

from router.finished import Finished

Kept = tuple[str, Future[Any] | str]
"""(kind, a write under way) or (kind, the reason why nothing is kept)."""


class Keeper(Protocol):
    """Keeps one kind of thing of a finished request."""

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """What was handed to the store, or why not. `finished` has been read: its usage and cost are known."""
        ...
