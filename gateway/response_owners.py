"""Whose the ids of responses are, which engine holds what they name, and what is kept here because none does.

What was just noted is known in this process at once, before it is committed: a client may continue an answer the moment
its last event is there.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass

import structlog
from cachetools import TTLCache

from store.answers.responses import KeptResponse, KeptResponses
from store.errors import StoreError
from store.people.owned import Owned, OwnedIds

log = structlog.get_logger(__name__)

RESPONSE, ITEM = "response", "item"
KEPT, KEPT_ITEM = "response kept here", "item kept here"
"""Kinds of what is owned."""
_RECENT = 10_000
_RECENT_S = 60.0
_KEPT_WITHIN_S = 3.0
"""An answer that is to be kept is so by then: it is read off the request path."""
_LOOK_EVERY_S = 0.02
_ID = re.compile(rb'"id" ?: ?"([!#-\[\]-~]{1,200})"')
_WITHIN_BYTES = 16 * 1024


def id_in(beginning: bytes) -> str:
    """The id of the response whose bytes begin so; empty where it is not there (yet)."""
    found = _ID.search(beginning[:_WITHIN_BYTES])
    return found[1].decode() if found is not None else ""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks."""

    tenant: str
    end_user: str = ""
    """The digest of the end user where each has a memory of their own; empty: the tenant itself."""
    key_id: str = ""


class ResponseOwners:
    """Without a store (`owned` and `kept` are None) ids are known in this process only, and nothing is kept."""

    def __init__(self, owned: OwnedIds | None = None, kept: KeptResponses | None = None) -> None:
        self._owned = owned
        self._kept = kept
        self._recent: TTLCache[tuple[str, str], dict[str, Owned]] = TTLCache(_RECENT, _RECENT_S)

    @property
    def keeps(self) -> bool:
        """Whether answers can be kept here."""
        return self._kept is not None

    def noticed(self, id: str, owned: Owned) -> None:
        """An answer with this id begins. On the event loop; nothing is written."""
        self._recent[id, owned.tenant] = {**self._recent.get((id, owned.tenant), {}), owned.end_user: owned}

    async def find(self, id: str, tenant: str, end_user: str = "") -> Owned | None:
        """What is known of an id for this asker (store.people.owned). Raises StoreError."""
        recent = self._recent.get((id, tenant), {})
        found = (
            recent.get(end_user)
            or recent.get("")
            or (next(iter(recent.values()), None) if not end_user else None)
        )
        if found is not None or self._owned is None:
            return found
        return await self._owned.reads(self._owned.find, id, tenant, end_user)

    async def is_strangers(self, id: str, asker: Asker) -> bool:
        """Whether an id was noted for others than this asker only."""
        if await self.find(id, asker.tenant, asker.end_user) is not None or self._owned is None:
            return False
        return await self._owned.reads(self._owned.is_strangers, id, asker.tenant, asker.end_user)

    async def kept(self, id: str, tenant: str) -> KeptResponse | None:
        """An answer that is kept here, or is about to be; None where it is not after all."""
        if self._kept is None:
            return None
        until = time.monotonic() + _KEPT_WITHIN_S
        reads, get = self._kept.reads, self._kept.get
        while (found := await reads(get, id, tenant)) is None and time.monotonic() < until:
            if (id, tenant) not in self._recent:
                return None
            await asyncio.sleep(_LOOK_EVERY_S)
        return found

    async def forget(self, id: str, asker: Asker, owned: Owned) -> None:
        """What an id names was deleted. Raises StoreError."""
        self._recent.pop((id, asker.tenant), None)
        if self._kept is not None:
            await asyncio.wrap_future(self._kept.forget(id, asker.tenant))
        if self._owned is not None:
            await asyncio.wrap_future(self._owned.forget(id, asker.tenant, owned.end_user))


async def replayable(owners: ResponseOwners, body: bytes, asker: Asker) -> bool:
    """Whether a remembered answer may be given again: its id is still there for this asker."""
    try:
        return await owners.find(id_in(body), asker.tenant, asker.end_user) is not None
    except StoreError as error:
        log.warning("response_owner_unknown", error=error)
        return False
