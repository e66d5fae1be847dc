"""A tenant's own examples, as they are given, found and kept: by the API, by corrections, and by operators. Blocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from typing import Protocol

import structlog

from engines.chat import ChatRequest
from learning.bank.demonstrations import Digested, digested
from store.admission import Admission, Contributor
from store.examples.contributors import Standing
from store.records import Admitted, Example, Kind, NewExample, Vector

log = structlog.get_logger(__name__)

_NEIGHBOURS = 8


class Bank(Protocol):
    """What is needed of store.examples.bank.ExampleBank."""

    def admit(self, new: NewExample) -> Future[Admitted]: ...

    def update(
        self,
        tenant: str,
        id: int,
        *,
        answer: str | None = ...,
        kind: Kind | None = ...,
        pinned: bool | None = ...,
        served_from_s: float | None = ...,
    ) -> Future[Example | None]: ...

    def page(
        self, tenant: str, *, after_id: int = ..., limit: int = ..., kind: Kind | None = ...
    ) -> Sequence[Example]: ...

    def remove(self, tenant: str, ids: Sequence[int]) -> Future[int]: ...


class Embedder(Protocol):
    """What is needed of router.embedding.embedder.Embedder."""

    @property
    def version(self) -> str: ...

    def embed_blocking(self, text: str) -> Vector: ...


@dataclass(frozen=True, slots=True)
class ExampleStore:
    """Gives demonstrations to the bank, by its rules."""

    bank: Bank
    find: Callable[[str, str], Example | None]
    """The tenant's example that stands for a request."""
    admission: Admission
    embedder: Embedder
    nearest: Callable[[str, Vector, int], list[tuple[int, float]]]
    followed: Callable[[int], object]
    """Waits until this process's index has followed the log up to a place."""
    standing: Callable[[str, str, float], Standing]
    """What a key has contributed so far. Blocks."""
    secret: bytes

    def digest(self, tenant: str, key_id: str | None, chat: ChatRequest, answer: str) -> Digested:
        """What may be kept of a demonstration, given by whom it is. Milliseconds of CPU. Raises NotAdmitted."""
        by = None
        if key_id is not None:
            by = Contributor(**asdict(self.standing(tenant, key_id, time.time())))
        return digested(chat, answer, self.admission, "demonstration", contributor=by)

    def keep(self, new: NewExample) -> Admitted:
        """Embed a demonstration and keep it; findable in this process when it returns. Blocks. Raises StoreBusy."""
        try:
            vector = self.embedder.embed_blocking(new.embedded_text)
        except Exception as error:
            # Kept without a vector: the background pass embeds it.
            log.warning("embedding_failed", error=error)
        else:
            near = self.nearest(new.tenant, vector, _NEIGHBOURS)
            new = replace(new, vector=vector, neighbours=tuple(near))
        admitted = self.bank.admit(new).result()
        kept = admitted.example
        if new.pinned and not kept.pinned:
            kept = self.bank.update(new.tenant, kept.id, pinned=True).result() or kept
        self.followed(kept.seq)
        return replace(admitted, example=kept)
