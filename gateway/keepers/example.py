"""Keeps what the reference engine said as an example, if the admission rules let it, with the text they let through."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import structlog
from cachetools import LRUCache

from engines.chat import Usage
from gateway.keepers.keeper import Kept, vector_of
from learning.outcomes.wrapping import as_used
from router.asked import Arrival
from router.digest import (
    carries_tools,
    instructions,
    is_follow_up,
    is_plain_text,
    question,
    shared_scope,
)
from router.digest import scope as scope_of
from router.embedding.embedder import Embedder, EmbedderError
from router.embedding.templates import Templates
from router.finished import Finished
from router.shedding import NEVER, Loaded
from router.standalone import Standalone
from store.admission import Admission, Contributor, Pair
from store.admission.cutting import cut
from store.examples.bank import ExampleBank
from store.examples.contributors import Standing
from store.records import NewExample, Vector

log = structlog.get_logger(__name__)

_TWIN_CANDIDATES = 4
_SCOPES = 1000


class ExampleKeeper:
    """Keeps what the reference engine said as an example, if the admission rules let it, with the text they let through."""

    def __init__(
        self,
        bank: ExampleBank,
        embedder: Embedder,
        admission: Admission,
        nearest: Callable[[str, Vector, int], list[tuple[int, float]]],
        *,
        embedded_characters: int,
        templates: Templates | None = None,
        standing: Callable[[str, str, float], Standing] | None = None,
        opted_out_keys: Collection[str] = (),
        load: Loaded = NEVER,
        standalone: Standalone | None = None,
    ) -> None:
        """`standalone`: the test of follow-ups, where those that pass it are kept as questions of their own."""
        self._standalone = standalone
        self._load = load
        self._opted_out_keys = frozenset(opted_out_keys)
        self._standing = standing
        self._bank = bank
        self._embedder = embedder
        self._admission = admission
        self._nearest = nearest
        self._embedded_characters = embedded_characters
        self._templates = templates or Templates()
        self._may_keep: LRUCache[str, bool] = LRUCache(_SCOPES)
        """By the scope that a tenant shares: whether its instructions may be kept. On the recorder's thread only."""

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper."""
        assembled, arrival, asked = finished.assembled, finished.arrival, finished.asked
        if finished.hit is not None or assembled is None or finished.by_student:
            return
        if finished.from_reference and self._load.sheds("examples"):
            yield "example", "shed"
            return
        chat, alone = asked.chat, self._stands_alone(asked.chat.messages)
        text = question(chat.messages, alone=alone)
        asked_under = instructions(chat)
        verdict = self._admission.judge(
            Pair(
                offers_tools=carries_tools(chat),
                plain_text=is_plain_text(chat.messages),
                status=finished.status,
                complete=finished.complete and assembled.whole,
                opted_out=asked.controls.no_store,
                key_opted_out=arrival.key_id in self._opted_out_keys,
                model_opted_out=not finished.remember,
                from_reference=finished.from_reference,
                question=text,
                answer=as_used(assembled.text(), asked_under, text),
                finish_reason=assembled.finish_reason(),
                choices=len(assembled.choices()),
                calls_tools=assembled.calls_tools(),
                follow_up=is_follow_up(chat.messages) and not alone,
                contributor=self._contributor(arrival),
            )
        )
        if not verdict.admitted:
            yield "example", verdict.reason or "refused"
            return
        scope = scope_of(chat, named=asked.controls.scope, end_user=asked.end_user)
        self._templates.kept_as(arrival.tenant, scope, text, verdict.question)
        embedded_text = self._templates.digest(arrival.tenant, scope, verdict.question).text
        vector = vector_of(finished.plan, embedded_text, self._embed)
        usage = finished.usage or Usage(0, 0)
        new = NewExample(
            tenant=arrival.tenant,
            scope=scope,
            instructions=asked_under if self._kept(shared_scope(scope), asked_under) else "",
            question=verdict.question,
            answer=verdict.answer,
            embedded_text=embedded_text,
            vector=vector,
            embedding_version=self._embedder.version,
            source_engine=finished.engine,
            request_id=arrival.id,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            contributor=asked.contributor,
            served_from_s=verdict.held_until_s or 0.0,
            neighbours=self._neighbours(arrival.tenant, scope if asked.end_user else "", vector),
        )
        yield "example", self._bank.admit(new)

    def _stands_alone(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        try:
            return self._standalone is not None and self._standalone.tells_blocking(messages)
        except EmbedderError:
            return False

    def _kept(self, scope: str, asked_under: str) -> bool:
        known = self._may_keep.get(scope)
        if known is None:
            known = self._may_keep[scope] = self._admission.may_keep_instructions(asked_under)
        return known

    def _contributor(self, arrival: Arrival) -> Contributor | None:
        """Counts of the key this came by; None where clients have no keys of ours, and so nobody shares a bank."""
        if self._standing is None or arrival.key_id is None:
            return None
        return Contributor(**asdict(self._standing(arrival.tenant, arrival.key_id, time.time())))

    def _embed(self, text: str) -> Vector:
        return self._embedder.embed_blocking(cut(text, self._embedded_characters))

    def _neighbours(
        self, tenant: str, users_scope: str, vector: Vector | None
    ) -> tuple[tuple[int, float], ...]:
        """Among these a twin is looked for; without an index nothing is merged."""
        if vector is None:
            return ()
        try:
            if users_scope:
                version = self._embedder.version
                found = self._bank.nearest_in(tenant, users_scope, vector, _TWIN_CANDIDATES, version)
            else:
                found = self._nearest(tenant, vector, _TWIN_CANDIDATES)
            return tuple(found)
        except Exception as error:
            log.warning("twin_search_failed", error=error)
            return ()
