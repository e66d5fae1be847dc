"""Which of a tenant's answers a feedback means: by the completion's own id or by the gateway's decision id."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol

from store.records import ChoiceRecord, RequestRecord

_EVERY_S = 0.05
_ANSWERED = frozenset({"answered", "aborted", "hit"})


class ChoiceLookUp(Protocol):
    """What is needed of store.decisions.choices.Choices."""

    def get(self, tenant: str, request_id: str) -> ChoiceRecord | None: ...

    def by_completion(self, tenant: str, completion_id: str) -> ChoiceRecord | None: ...


class RequestLookUp(Protocol):
    """What is needed of store.decisions.requests.RequestLog."""

    def get(self, id: str, tenant: str | None = None) -> RequestRecord | None: ...


@dataclass(frozen=True, slots=True)
class Target:
    """An answer that a feedback is about."""

    request_id: str
    at_s: float
    engine: str
    """Empty when it was replayed from memory: what engine gave it long ago is then not known here."""
    example_ids: tuple[int, ...]


class Targets:
    """Finds answers. What is not the tenant's own does not exist."""

    def __init__(
        self, choices: ChoiceLookUp, requests: RequestLookUp | None, *, settle_s: float = 2.0
    ) -> None:
        """`settle_s`: how long to look again for an answer whose row the recorder may still be writing."""
        self._choices = choices
        self._requests = requests
        self._settle_s = settle_s

    async def wait_for(self, tenant: str, id: str, *, completion: bool | None) -> Target | None:
        """The answer with this id, or None, which takes `settle_s` to say.

        `completion` says which kind of id it is, None that it may be either. Who gives feedback the moment an answer is
        there is faster than the recorder, so what is not found at once is looked for again. The waiting is done here
        and not on a thread: whoever asks for answers that do not exist must not use up the threads.
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
            return Target(choice.request_id, choice.at_s, choice.engine, choice.example_ids)
        if completion is True or self._requests is None:
            return None
        row = self._requests.get(id, tenant)
        if row is None or row.outcome not in _ANSWERED:
            return None
        return Target(row.id, row.started_at_s, row.engine, row.example_ids)
