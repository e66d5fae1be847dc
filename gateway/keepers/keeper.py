"""The seam between the recorder and what it keeps. A keeper runs on the recorder's thread and knows one kind of memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Protocol, runtime_checkable

from router.finished import Finished

Kept = tuple[str, Future[Any] | str]
"""(kind, a write under way) or (kind, the reason why nothing is kept)."""


class Keeper(Protocol):
    """Keeps one kind of thing of a finished request."""

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """What was handed to the store, or why not. `finished` has been read: its usage and cost are known."""
        ...


@runtime_checkable
class Gathering(Protocol):
    """A keeper that writes what it is given together: `keep` only remembers it, or says why not."""

    def write(self) -> Iterator[tuple[str, Future[Any], int]]:
        """(kind, a write under way, of how many) of all that was kept since it was last called."""
        ...
