"""What `POST /v1/responses` stores between two requests, and who holds what a request names.

What it names was stored by an engine, which is asked then; or it was kept here, and is put before the input. What was
stored for others is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import orjson
from multidict import CIMultiDict

from engines.chat import IN_BODY, ChatRequest
from engines.codecs.response_request import said_before, stored_ids
from engines.codecs.responses import RESPONSES
from engines.engine import Engine
from engines.errors import EngineError, RequestError
from engines.off_loop import off_loop
from engines.servers.servers import Servers
from gateway.endpoints.by_pipeline import Held
from gateway.endpoints.store_access import stored
from gateway.keepers.response import MOST_ITEMS, kept_here
from gateway.pipeline import Pipeline
from gateway.response_owners import ITEM, KEPT, KEPT_ITEM, RESPONSE, Asker, ResponseOwners, id_in
from gateway.send import Send, Watched
from router.asked import Admitted, Asked
from store.answers.responses import KeptResponse
from store.people.owned import Owned

if TYPE_CHECKING:
    from router.finished import Finished

PATH = RESPONSES.path
_HEAD_BYTES = 16 * 1024
_NOTICED_BYTES = 64 * 1024
"""Up to here reading an answer costs the event loop less than half a millisecond."""
_AT_ONE_REPLICA = frozenset({"previous_response_id", "conversation", "prompt", "input", "tools"})
"""States that name what one replica has stored, and others need not have."""


class StoredAnswers:
    """Follows what `/responses` stores: see gateway.endpoints.by_pipeline.Stored."""

    def __init__(self, pipeline: Pipeline, engines: Mapping[str, Engine], owners: ResponseOwners) -> None:
        self._pipeline = pipeline
        self._engines = engines
        self._owners = owners

    def noting(self, send: Send, asked: Asked) -> Send:
        """See Stored."""
        if asked.chat.own_fields.get("store") is False or asked.arrival.anonymous:
            return send
        reference = self._pipeline.reference(asked.chat)
        if reference and RESPONSES.api in self._engines[reference].info.translated:
            # It stores nothing.
            reference = ""
        noting = _NotingId(self._owners, asked, reference, keeps=not asked.controls.no_store)
        return Watched(send, noting)

    def ended(self, finished: Finished) -> None:
        """See Stored."""
        self._note_replica(finished)
        if finished.asked.chat.own_fields.get("store") is not False and not finished.arrival.anonymous:
            self._notice_items(finished)

    async def found(self, chat: ChatRequest, arrival: Admitted, end_user: str) -> Held:
        """See Stored."""
        if not chat.state:
            return Held(chat)
        asker = Asker(arrival.tenant, end_user, arrival.key_id or "")
        engine = replica = ""
        before: KeptResponse | None = None
        items: dict[str, KeptResponse] = {}
        for param, id in list(stored_ids(chat.own_fields)):
            owned = await stored(self._owners.find(id, asker.tenant, asker.end_user))
            if owned is None:
                if not arrival.reach.own_account and await stored(self._owners.is_strangers(id, asker)):
                    raise not_found(id, param)
                continue
            kept = await self._owners.kept(id, asker.tenant) if owned.kind in (KEPT, KEPT_ITEM) else None
            if kept is not None and owned.kind == KEPT and param == "previous_response_id":
                before = kept
            elif kept is not None and owned.kind == KEPT_ITEM:
                items[id] = kept
            elif not engine:
                engine, replica = owned.engine, owned.replica
        if before is not None or items:
            chat = await off_loop(_size_bytes(chat, before, items), _said_here, chat, before, items)
        return Held(chat, engine, self._not_at(chat, asker.tenant, engine, replica))

    def _not_at(self, chat: ChatRequest, tenant: str, engine: str, replica: str) -> frozenset[str]:
        if chat.state not in _AT_ONE_REPLICA:
            return frozenset()
        holder = self._engines.get(engine or self._pipeline.reference(chat))
        if not isinstance(holder, Servers):
            return frozenset()
        if replica in holder.info.replicas:
            return holder.all_but(replica)
        return holder.only_where_stored(tenant, next((id for _, id in stored_ids(chat.own_fields)), ""))

    def _note_replica(self, finished: Finished) -> None:
        """Note which replica stored the answer."""
        holder = self._engines.get(finished.engine)
        replica = finished.trail[-1].replica if finished.trail else ""
        # Of an engine with one server there is nothing to note.
        if not isinstance(holder, Servers) or not replica or finished.hit is not None:
            return
        id = id_in(finished.body.chunks[0]) if finished.body.chunks else None
        if id:
            holder.stored(finished.arrival.tenant, id, replica)

    def _notice_items(self, finished: Finished) -> None:
        """Know of a small answer's items at once, as the next request may name them; of others a moment later."""
        body, arrival, asked = finished.body, finished.arrival, finished.asked
        if finished.hit is not None or finished.status != 200 or not 0 < body.size_bytes <= _NOTICED_BYTES:
            return
        assembled = RESPONSES.assembled(body)
        output = assembled.own.get("output") if assembled is not None and assembled.own is not None else None
        here = self._owners.keeps and not asked.controls.no_store and kept_here(finished)
        kind = KEPT_ITEM if here else ITEM
        owned = Owned(kind, arrival.tenant, asked.end_user, arrival.key_id or "", finished.engine)
        for item in output[:MOST_ITEMS] if isinstance(output, list) else ():
            if isinstance(item, dict) and isinstance(item.get("id"), str):
                self._owners.noticed(item["id"], owned)


class _NotingId:
    """Notes the id at the beginning of an answer. See gateway.send.Watcher."""

    __slots__ = ("_asked", "_head", "_headers", "_keeps", "_owners", "_reference")

    def __init__(self, owners: ResponseOwners, asked: Asked, reference: str, *, keeps: bool) -> None:
        self._owners = owners
        self._asked = asked
        self._reference = reference
        self._keeps = keeps and owners.keeps
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._head: bytearray | None = None
        """What came so far; None where nothing is looked for any more."""

    def begins(self, status: int, headers: CIMultiDict[str]) -> None:
        """See Watcher."""
        self._headers = headers
        if status == 200:
            self._head = bytearray()

    def feed(self, chunk: bytes) -> None:
        """See Watcher."""
        if self._head is None:
            return
        self._head += chunk
        if self._note(bytes(self._head), self._headers) or len(self._head) > _HEAD_BYTES:
            self._head = None

    def ends(self, error: EngineError | None = None) -> None:
        """See Watcher."""

    def goes_on(self) -> bool:
        """See Watcher."""
        return False

    def _note(self, beginning: bytes, headers: Mapping[str, str]) -> bool:
        """Returns whether the id was there."""
        engine, id = headers.get("x-understudy-engine", ""), id_in(beginning)
        if not engine or not id:
            # An answer from memory has an id that was noted when it was first given.
            return not engine
        from_reference = engine == self._reference and headers.get("x-understudy-examples") == "0"
        here = self._keeps and not from_reference and self._asked.chat.state in ("", IN_BODY)
        arrival, kind = self._asked.arrival, KEPT if here else RESPONSE
        owned = Owned(kind, arrival.tenant, self._asked.end_user, arrival.key_id or "", engine)
        self._owners.noticed(id, owned)
        return True


def not_found(id: str, param: str | None = None) -> RequestError:
    """The refusal of an id that is not the asker's, or nobody's."""
    return RequestError(
        f"There is no response '{id[:100]}' here.", status=404, code="response_not_found", param=param
    )


def _size_bytes(chat: ChatRequest, before: KeptResponse | None, items: Mapping[str, KeptResponse]) -> int:
    kept = [*items.values(), *([before] if before is not None else [])]
    return len(chat.body) + sum(len(one.response) + len(one.input) for one in kept)


def _said_here(
    chat: ChatRequest, before: KeptResponse | None, items: Mapping[str, KeptResponse]
) -> ChatRequest:
    said = None
    if before is not None:
        said = [*orjson.loads(before.input), *said_before(orjson.loads(before.response)["output"])]
    return RESPONSES.said_here(chat, said, {id: orjson.loads(one.response) for id, one in items.items()})
