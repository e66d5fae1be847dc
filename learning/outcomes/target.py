"""Finds the answer that feedback is about, by the completion's own id or by the gateway's decision id."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from store.decisions.choices import Choices
from store.decisions.requests import RequestLog
from store.records import RequestRecord

_EVERY_S = 0.05
_ANSWERED = frozenset({"answered", "aborted", "hit"})


@dataclass(frozen=True, slots=True)
class Target:
    """An answer that a feedback is about."""

    request_id: str
    at_s: float
    engine: str
    """Empty for an answer replayed from memory: the engine that gave it is not known here."""
    example_ids: tuple[int, ...]
    contributor: str | None = ""
    """Whom it answered (learning.bank.contributor); None where nobody knows."""


class Targets:
    """Finds answers by their ids. Another tenant's answer counts as not found."""

    def __init__(
        self,
        choices: Choices,
        requests: RequestLog | None,
        *,
        contributor_of: Callable[[str, RequestRecord], str | None] = lambda tenant, request: None,
        settle_s: float = 2.0,
    ) -> None:
        """`contributor_of`: who a request came from where no choice says so, None where nobody knows; blocks. `settle_s`:
        how long to retry for an answer whose row the recorder may still be writing."""
        self._contributor_of = contributor_of
        self._choices = choices
        self._requests = requests
        self._settle_s = settle_s

    async def wait_for(self, tenant: str, id: str, *, completion: bool | None) -> Target | None:
        """The answer with this id, or None after `settle_s`.

        `completion` says whether it is a completion's id; None: either kind. A client that gives feedback at once may be
        faster than the recorder, so an answer that is not found is looked up again. The waiting is done here and not on a
        thread: requests for answers that do not exist must not use up the threads.
        """
        until_s = time.monotonic() + self._settle_s
        while True:
            found = await asyncio.to_thread(self._find, tenant, id, completion)
            if found is not None or time.monotonic() >= until_s:
                return found
            await asyncio.sleep(_EVERY_S)

    def _find(self, tenant: str, id: str, completion: bool | None) -> Target | None:
        choice = None
        if completion is not True:
            choice = self._choices.get(tenant, id)
        if choice is None and completion is not False:
            choice = self._choices.by_completion(tenant, id)
        if choice is not None:
            return Target(
                choice.request_id, choice.at_s, choice.engine, choice.example_ids, choice.contributor
            )
        if completion is True or self._requests is None:
            return None
        row = self._requests.get(id, tenant)
        if row is None or row.outcome not in _ANSWERED:
            return None
        by = self._contributor_of(tenant, row)
        return Target(row.id, row.started_at_s, row.engine, row.example_ids, by)
