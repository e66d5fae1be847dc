"""Notes whose the ids of responses are, and keeps those responses that no upstream holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from engines.chat import IN_BODY
from engines.codecs.response_request import input_items
from gateway.keepers.keeper import Kept
from gateway.response_owners import ITEM, KEPT, KEPT_ITEM, RESPONSE
from router.finished import Finished
from store.answers.responses import KeptResponse, KeptResponses
from store.people.owned import Owned, OwnedIds

MOST_ITEMS = 64
"""Of an answer, whose ids are noted."""


class ResponseKeeper:
    """Of answers of `/v1/responses` that were asked to be stored, which is what no word of it means."""

    def __init__(self, owned: OwnedIds, kept: KeptResponses) -> None:
        self._owned = owned
        self._kept = kept

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper."""
        response = stored_response(finished)
        if response is None:
            return
        id, arrival, asked = response["id"], finished.arrival, finished.asked
        here = kept_here(finished) and not asked.controls.no_store
        whose = arrival.tenant, asked.end_user
        at = finished.engine, finished.trail[-1].replica if finished.trail else ""
        owned = Owned(KEPT if here else RESPONSE, *whose, arrival.key_id or "", *at)
        yield "response_id", self._owned.note(id, owned)
        item = Owned(KEPT_ITEM if here else ITEM, *whose, arrival.key_id or "", *at)
        for each in response["output"][:MOST_ITEMS]:
            if not isinstance(each, dict) or not isinstance(each.get("id"), str):
                continue
            yield "response_id", self._owned.note(each["id"], item)
            if here:
                kept = KeptResponse(orjson.dumps(each), b"[]")
                yield (
                    "response",
                    self._kept.put(each["id"], arrival.tenant, kept, contributor=asked.contributor),
                )
        if here:
            given = orjson.dumps(input_items(asked.chat.own_fields))
            yield (
                "response",
                self._kept.put(
                    id,
                    arrival.tenant,
                    KeptResponse(orjson.dumps(response), given),
                    contributor=asked.contributor,
                ),
            )


def kept_here(finished: Finished) -> bool:
    """Tell if no upstream holds all of an answer: another engine than the reference gave it, or with examples of ours, or in
    another API."""
    return (finished.translated or not finished.from_reference) and finished.asked.chat.state in ("", IN_BODY)


def stored_response(finished: Finished) -> dict[str, Any] | None:
    """The response that the client was told is stored; None for any other answer."""
    asked, assembled = finished.asked, finished.assembled
    if asked.arrival.anonymous:
        return None
    if (
        asked.chat.api != "responses"
        or finished.hit is not None
        or assembled is None
        or finished.status != 200
    ):
        return None
    response = assembled.own
    if (
        response is None
        or not isinstance(response.get("id"), str)
        or asked.chat.own_fields.get("store") is False
    ):
        return None
    return response if isinstance(response.get("output"), list) else None
