"""Embeds in the background what of the examples has no embedding of the current version: questions, and answers.

A question lacks one if the embedder had failed, or was changed; answers are only ever embedded here. The table says which
are left, so the work continues where it was after any stop; of several processes only the one that holds the lease works.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import structlog

from store.examples.answer_vectors import AnswerVectors, WaitingAnswer
from store.examples.bank import ExampleBank
from store.jobs.claims import EmbeddingClaims, Kind
from store.jobs.leases import Lease, again_while_alone
from store.records import Unembedded

if TYPE_CHECKING:
    from router.embedding.embedder import BlockingEmbedder

ANSWER_CHARACTERS = 400
"""Answers are cut to this before they are embedded: more costs more and tells little."""
log = structlog.get_logger(__name__)

_PAGE = 50
_PAUSE_S = 0.005
"""Pause before each question, so that requests get the embedder first."""
_LOOK_AGAIN_S = 30.0


class _Row(Protocol):
    @property
    def id(self) -> int: ...


R = TypeVar("R", bound=_Row)


class BackgroundEmbedder(ABC, Generic[R]):
    """Works on its own thread between `start` and `stop`."""

    kind: Kind
    """The name under which several processes without a lease claim rows."""

    def __init__(
        self, embedder: BlockingEmbedder, version: str, claims: EmbeddingClaims, lease: Lease | None
    ) -> None:
        """`lease`: of such processes; None: several are at it, each with what it claims."""
        self.version = version
        """Version of the embeddings it makes; readers must ask for this one."""
        self._embedder = embedder
        self._claims = claims
        self._lease = lease
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"embed-{self.kind}s", daemon=True)
        self.done = 0
        """Number of texts embedded since the start."""

    @abstractmethod
    def _missing(self, limit: int, after_id: int = 0) -> Sequence[R]:
        """The next rows without an embedding, by id."""

    @abstractmethod
    def _embed(self, row: R) -> None:
        """Embeds one row and stores it."""

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stops after the present text and waits for the thread to end. Does nothing if it was never started."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        again_while_alone(
            self._embed_all,
            self._lease,
            self._stopping,
            every_s=_LOOK_AGAIN_S,
            failed="background_embedding_failed",
            wanted=lambda: self._missing(1),
        )

    def _embed_all(self) -> None:
        before, after_id = self.done, 0
        while not self._stopping.is_set() and (page := self._missing(_PAGE, after_id)):
            ids = [row.id for row in page]
            taken = mine = set(ids)
            if self._lease is None:
                taken = self._claims.take(self.kind, ids)
                # What another process was done with before it could be claimed here is not missing any more.
                mine = taken & {row.id for row in self._missing(_PAGE, after_id)}
            after_id = page[-1].id
            for row in page:
                if row.id in mine and not self._stopping.is_set():
                    self._embed(row)
            if self._lease is None and taken:
                self._claims.let_go(self.kind, sorted(taken))
        if self.done > before:
            log.info("embedded", kind=self.kind, examples=self.done - before, version=self.version)


class QuestionEmbedder(BackgroundEmbedder[Unembedded]):
    """Embeds the questions of examples."""

    kind = "question"

    def __init__(
        self, bank: ExampleBank, embedder: BlockingEmbedder, claims: EmbeddingClaims, lease: Lease | None
    ) -> None:
        """See BackgroundEmbedder."""
        super().__init__(embedder, embedder.version, claims, lease)
        self._bank = bank

    def _missing(self, limit: int, after_id: int = 0) -> Sequence[Unembedded]:
        return self._bank.without_vector(self.version, limit, after_id)

    def _embed(self, row: Unembedded) -> None:
        if not self._stopping.wait(_PAUSE_S):
            vector = self._embedder.embed_blocking(row.embedded_text)
            self._bank.set_vector(row.id, vector, self.version).result()
            self.done += 1


class AnswerEmbedder(BackgroundEmbedder[WaitingAnswer]):
    """Embeds the answers of examples at a bounded rate, since only requests are urgent."""

    kind = "answer"

    def __init__(
        self,
        answers: AnswerVectors,
        embedder: BlockingEmbedder,
        claims: EmbeddingClaims,
        lease: Lease | None,
        *,
        max_characters: int = ANSWER_CHARACTERS,
        share: float = 0.1,
    ) -> None:
        """Answers are cut to `max_characters`: longer ones cost most and add little. `share`, above 0 and at most 1, is
        the share of time spent embedding; the rest is left to requests. Raises ValueError for other shares.
        """
        if not 0.0 < share <= 1.0:
            raise ValueError(f"a share of {share} of the embedder's time: above 0 and at most 1 is right")
        super().__init__(embedder, version_of(embedder.version, max_characters), claims, lease)
        self._answers = answers
        self._max_characters = max_characters
        self._share = share

    def _missing(self, limit: int, after_id: int = 0) -> Sequence[WaitingAnswer]:
        return self._answers.missing(self.version, limit, after_id)

    def _embed(self, row: WaitingAnswer) -> None:
        began = time.perf_counter()
        try:
            vector = self._embedder.embed_blocking(row.answer[: self._max_characters])
            self.done += bool(self._answers.put(row.id, vector, self.version, row.answer).result())
        except Exception as error:
            # One answer that cannot be embedded must not block those after it.
            log.warning("embedding_answer_failed", error=error, example=row.id)
        took_s = time.perf_counter() - began
        self._stopping.wait(took_s * (1.0 / self._share - 1.0))


def version_of(embedding_version: str, max_characters: int = ANSWER_CHARACTERS) -> str:
    """Return the version of the answers' embeddings, given the embedder's version and the cut."""
    return f"{embedding_version}/answers:{max_characters}c"
