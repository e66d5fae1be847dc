"""Stores demonstrations in a tenant's bank, for the API, for corrections and for operators. Blocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from engines.chat import ChatRequest
from learning.bank.contributor import is_from
from learning.bank.demonstrations import Digested, digested
from router.digest import user_scope
from router.embedding.templates import Templates
from store.admission import Admission, Contributor
from store.admission.contributors import may_judge
from store.examples.bank import ExampleBank
from store.examples.contributors import Standing
from store.records import Admitted, Example, NewExample, Vector

if TYPE_CHECKING:
    from router.embedding.embedder import BlockingEmbedder

log = structlog.get_logger(__name__)

_NEIGHBOURS = 8
WRITTEN_WITHIN_S = 5.0
"""A client waits, and so does a thread that others need."""


@dataclass(frozen=True, slots=True)
class ExampleStore:
    """Checks demonstrations by the admission rules and stores them."""

    bank: ExampleBank
    find: Callable[[str, str], Example | None]
    """The tenant's example made from a request, by the request's id."""
    admission: Admission
    embedder: BlockingEmbedder
    nearest: Callable[[str, Vector, int], list[tuple[int, float]]]
    followed: Callable[[int], object]
    """Waits until this process's index has followed the log up to a sequence number."""
    standing: Callable[[str, str, float], Standing]
    """Returns a key's contributions so far, by tenant, key id and time. Blocks."""
    secret: bytes
    templates: Templates = field(default_factory=Templates)
    """Choose the part of a question that is embedded."""
    made_at_s: Callable[[str], float | None] = lambda key_id: None
    """When a key was made. Blocks."""

    def digest(
        self,
        tenant: str,
        key_id: str | None,
        chat: ChatRequest,
        answer: str,
        named_scope: str | None = None,
        *,
        end_user: str = "",
    ) -> Digested:
        """Return what is kept of a demonstration from a key (None: an operator). Some ms of CPU. Raises NotAdmitted."""
        by = None if key_id is None else self._contributor(tenant, key_id)
        return digested(
            chat,
            answer,
            self.admission,
            "demonstration",
            contributor=by,
            named_scope=named_scope,
            end_user=end_user,
        )

    def _contributor(self, tenant: str, key_id: str) -> Contributor:
        return Contributor(**asdict(self.standing(tenant, key_id, time.time())))

    def may_judge(self, tenant: str, key_id: str, example: Example) -> bool:
        """Tell if this key's word on an answer counts for an example of it. Blocks."""
        by, limits = self._contributor(tenant, key_id), self.admission.settings.contributors
        own = is_from(example.contributor, key_id=key_id)
        if not own and by.examples == 0 and (made_at_s := self.made_at_s(key_id)) is not None:
            # It gave nothing that it could speak well of: it is as new as the key.
            by = replace(by, first_seen_s=made_at_s)
        return may_judge(by, limits, time.time())

    def keep(self, new: NewExample) -> Admitted:
        """Embeds a demonstration and stores it; this process can find it when it returns. Blocks.

        Raises StoreError, and TimeoutError where the store takes too long: it may yet be written then.
        """
        new = replace(new, embedded_text=self.templates.digest(new.tenant, new.scope, new.question).text)
        try:
            vector = self.embedder.embed_blocking(new.embedded_text)
        except Exception as error:
            # Stored without an embedding: the reembedder adds it.
            log.warning("embedding_failed", error=error)
        else:
            if user_scope(new.scope):
                version = self.embedder.version
                near = self.bank.nearest_in(new.tenant, new.scope, vector, _NEIGHBOURS, version)
            else:
                near = self.nearest(new.tenant, vector, _NEIGHBOURS)
            new = replace(new, vector=vector, neighbours=tuple(near))
        admitted = self.bank.admit(new).result(WRITTEN_WITHIN_S)
        kept = admitted.example
        if new.pinned and not kept.pinned:
            kept = self.bank.update(new.tenant, kept.id, pinned=True).result(WRITTEN_WITHIN_S) or kept
        self.followed(kept.seq)
        return replace(admitted, example=kept)
