"""Gives a vector to the examples' answers, in the background and at a bounded pace: only requests' vectors are ever urgent.

A thread of its own. What is left to do stands in the table, so it goes on where it was after any stop; among several workers
only the one that holds the lock file works.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

import structlog

from learning.bank.reembedding import BlockingEmbedder
from store.examples.answer_vectors import WaitingAnswer
from store.jobs.exclusive import again_while_alone
from store.records import Vector

ANSWER_CHARACTERS = 400
"""Answers are cut to this before they are embedded: more costs more and tells little."""
log = structlog.get_logger(__name__)

_PAGE = 50
_LOOK_AGAIN_S = 30.0


class Answers(Protocol):
    """What is needed of store.examples.answer_vectors.AnswerVectors."""

    def missing(self, version: str, limit: int, after_id: int) -> Sequence[WaitingAnswer]: ...

    def put(self, id: int, vector: Vector, version: str, answer: str) -> Future[Any]: ...


class AnswerEmbedder:
    """Owns its thread between `start` and `stop`. Does nothing until started."""

    def __init__(
        self,
        answers: Answers,
        embedder: BlockingEmbedder,
        lock_file: Path,
        *,
        max_characters: int = ANSWER_CHARACTERS,
        share: float = 0.1,
    ) -> None:
        """Answers are cut to `max_characters`: long ones cost most and tell little more. `share` of its time is spent, above
        0 to 1; the rest is left to requests. Raises ValueError for other shares.
        """
        if not 0.0 < share <= 1.0:
            raise ValueError(f"a share of {share} of the embedder's time: above 0 and at most 1 is right")
        self.version = version_of(embedder.version, max_characters)
        """Of the vectors it makes; what reads them must ask for this."""
        self._answers = answers
        self._embedder = embedder
        self._lock_file = lock_file
        self._max_characters = max_characters
        self._share = share
        self._stopping = threading.Event()
        self._going = threading.Event()
        self._going.set()
        self._thread = threading.Thread(target=self._run, name="answer-embedder", daemon=True)
        self.done = 0
        """Answers embedded since the start."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def pause(self) -> None:
        """Stop after the answer at hand, until `resume`: for when the machine is needed for requests."""
        self._going.clear()

    def resume(self) -> None:
        """Go on."""
        self._going.set()

    def stop(self) -> None:
        """Stop after the answer at hand and wait for the thread to end. Harmless when it was never started."""
        self._stopping.set()
        self._going.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        again_while_alone(
            self._embed_all,
            self._lock_file,
            self._stopping,
            every_s=_LOOK_AGAIN_S,
            failed="embedding_answers_failed",
        )

    def _embed_all(self) -> None:
        before, after_id = self.done, 0
        while not self._stopping.is_set():
            page = self._answers.missing(self.version, _PAGE, after_id)
            if not page:
                break
            for row in page:
                self._going.wait()
                if self._stopping.is_set():
                    break
                after_id = row.id
                began = time.perf_counter()
                self._embed(row)
                took_s = time.perf_counter() - began
                self._stopping.wait(took_s * (1.0 / self._share - 1.0))
        if self.done > before:
            log.info("embedded_answers", examples=self.done - before, version=self.version)

    def _embed(self, row: WaitingAnswer) -> None:
        try:
            vector = self._embedder.embed_blocking(row.answer[: self._max_characters])
            self.done += bool(self._answers.put(row.id, vector, self.version, row.answer).result())
        except Exception as error:
            # One answer that cannot be embedded must not keep all behind it from theirs.
            log.warning("embedding_answer_failed", error=error, example=row.id)


def version_of(embedding_version: str, max_characters: int = ANSWER_CHARACTERS) -> str:
    """The version of answers' vectors that an embedder of that version makes of answers cut so."""
    return f"{embedding_version}/answers:{max_characters}c"
