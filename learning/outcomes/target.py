"""Finds the answer that feedback is about, by the completion's own id or by the gateway's decision id."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from store.decisions.choices import Choices
from store.decisions.requests import RequestLog
from store.errors import StoreBusy
from store.records import RequestRecord

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.4
_AT_MOST_S = 4.0
"""Less than a client waits for the store before it is told to come again (gateway.endpoints.store_access)."""
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
    """Whom it answered (learning.bank.contributor); None if nobody knows."""


class Targets:
    """Finds answers by their ids. Another tenant's answer counts as not found."""

    def __init__(
        self,
        choices: Choices,
        requests: RequestLog | None,
        *,
        contributor_of: Callable[[str, RequestRecord], str | None] = lambda tenant, request: None,
        settle_s: float = 2.0,
        recorded_to_s: Callable[[], float] | None = None,
    ) -> None:
        """`contributor_of`: who a request came from if no choice says so, None if nobody knows; blocks. `settle_s`:
        how long to retry for an answer whose row a recorder may still be writing. `recorded_to_s`: a time (time.monotonic)
        by when the answers of all workers are recorded; blocks, and may raise OSError. None: nobody is behind."""
        self._contributor_of = contributor_of
        self._choices = choices
        self._requests = requests
        self._settle_s = settle_s
        self._recorded_to_s = recorded_to_s

    async def wait_for(self, tenant: str, id: str, *, completion: bool | None) -> Target | None:
        """The answer with this id, or None: after `settle_s`, and once all that was answered before this call is recorded.

        `completion` says whether it is a completion's id; None: either kind. A client that gives feedback at once may be
        faster than the recorder of the worker that answered, so an answer that is not found is looked up again. Raises
        StoreBusy where some worker's recorder is behind for seconds: then nobody can say yet. The waiting is done here and
        not on a thread: requests for answers that do not exist must not use up the threads.
        """
        came_s = time.monotonic()
        pause_s = _FIRST_PAUSE_S
        while True:
            # Asked before the answer is looked for: what is not found after that is not there.
            waited_s = time.monotonic() - came_s
            last = waited_s >= self._settle_s and await asyncio.to_thread(self._all_recorded, came_s)
            found = await asyncio.to_thread(self._find, tenant, id, completion)
            if found is not None or last:
                return found
            if waited_s >= max(_AT_MOST_S, self._settle_s):
                raise StoreBusy("what was answered lately is still being written")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def of_session(self, tenant: str, session: str, since_s: float) -> list[str]:
        """The decision ids of a conversation's answers since `since_s`, the latest first; `session`: its digest. Waits until
        all that was answered before this call is recorded. Raises StoreBusy."""
        came_s = time.monotonic()
        while not await asyncio.to_thread(self._all_recorded, came_s):
            if time.monotonic() - came_s >= _AT_MOST_S:
                raise StoreBusy("what was answered lately is still being written")
            await asyncio.sleep(_FIRST_PAUSE_S)
        if self._requests is None:
            return []
        return await asyncio.to_thread(self._requests.answered_in, tenant, session, since_s)

    def _all_recorded(self, by_s: float) -> bool:
        return self._recorded_to_s is None or self._recorded_to_s() >= by_s

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
        if self._requests is None:
            return None
        row = self._requests.get(id, tenant) if completion is not True else None
        if row is None and completion is not False:
            row = self._requests.by_completion(tenant, id)
        if row is None or row.outcome not in _ANSWERED:
            return None
        by = self._contributor_of(tenant, row)
        return Target(row.id, row.started_at_s, row.engine, row.example_ids, by)
