"""Embeds the examples' answers in the background at a bounded rate, since only requests are urgent.

Runs on its own thread. The table says which answers are left, so the work continues where it was after any stop; of several
workers only the one that holds the lease works.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import structlog

from store.examples.answer_vectors import AnswerVectors, WaitingAnswer
from store.jobs.claims import EmbeddingClaims
from store.jobs.leases import Lease, again_while_alone

if TYPE_CHECKING:
    from router.embedding.embedder import BlockingEmbedder

ANSWER_CHARACTERS = 400
"""Answers are cut to this before they are embedded: more costs more and tells little."""
log = structlog.get_logger(__name__)

_PAGE = 50
_LOOK_AGAIN_S = 30.0


class AnswerEmbedder:
    """Works on its own thread between `start` and `stop`."""

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
        self.version = version_of(embedder.version, max_characters)
        """Version of the embeddings it makes; readers must ask for this one."""
        self._answers = answers
        self._embedder = embedder
        self._claims = claims
        self._lease = lease
        self._max_characters = max_characters
        self._share = share
        self._stopping = threading.Event()
        self._going = threading.Event()
        self._going.set()
        self._thread = threading.Thread(target=self._run, name="answer-embedder", daemon=True)
        self.done = 0
        """Number of answers embedded since the start."""

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def pause(self) -> None:
        """Pauses after the present answer until `resume`, so that requests have the machine."""
        self._going.clear()

    def resume(self) -> None:
        """Continues after `pause`."""
        self._going.set()

    def stop(self) -> None:
        """Stops after the present answer and waits for the thread to end. Does nothing if it was never started."""
        self._stopping.set()
        self._going.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        again_while_alone(
            self._embed_all,
            self._lease,
            self._stopping,
            every_s=_LOOK_AGAIN_S,
            failed="embedding_answers_failed",
            wanted=lambda: self._answers.missing(self.version, 1),
        )

    def _embed_all(self) -> None:
        before, after_id = self.done, 0
        while not self._stopping.is_set():
            page = self._answers.missing(self.version, _PAGE, after_id)
            if not page:
                break
            after_id = page[-1].id
            ids = [row.id for row in page]
            mine = self._claims.take("answer", ids) if self._lease is None else set(ids)
            for row in page:
                if row.id not in mine:
                    continue
                self._going.wait()
                if self._stopping.is_set():
                    break
                began = time.perf_counter()
                self._embed(row)
                took_s = time.perf_counter() - began
                self._stopping.wait(took_s * (1.0 / self._share - 1.0))
            if self._lease is None and mine:
                self._claims.let_go("answer", sorted(mine))
        if self.done > before:
            log.info("embedded_answers", examples=self.done - before, version=self.version)

    def _embed(self, row: WaitingAnswer) -> None:
        try:
            vector = self._embedder.embed_blocking(row.answer[: self._max_characters])
            self.done += bool(self._answers.put(row.id, vector, self.version, row.answer).result())
        except Exception as error:
            # One answer that cannot be embedded must not block those after it.
            log.warning("embedding_answer_failed", error=error, example=row.id)


def version_of(embedding_version: str, max_characters: int = ANSWER_CHARACTERS) -> str:
    """The version of the answers' embeddings, given the embedder's version and the cut."""
    return f"{embedding_version}/answers:{max_characters}c"
