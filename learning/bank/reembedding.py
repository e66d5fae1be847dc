"""Gives a vector to examples that have none of the current version: the embedder was broken when they came, or was changed.

A thread of its own. What is left to do stands in the table, so it goes on where it was after any stop; among several workers
only the one that holds the lock file works.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

import structlog

from store.jobs.exclusive import again_while_alone
from store.records import Unembedded, Vector

log = structlog.get_logger(__name__)

_PAGE = 50
_PAUSE_S = 0.005
"""Between two texts: requests that need the embedder go first."""
_LOOK_AGAIN_S = 30.0


class Bank(Protocol):
    """What is needed of store.examples.bank.ExampleBank."""

    def without_vector(self, version: str, limit: int, after_id: int) -> Sequence[Unembedded]: ...

    def set_vector(self, id: int, vector: Vector, version: str) -> Future[Any]: ...


class BlockingEmbedder(Protocol):
    """What is needed of router.embedding.embedder.Embedder."""

    @property
    def version(self) -> str: ...

    def embed_blocking(self, text: str) -> Vector: ...


class Reembedder:
    """Owns its thread between `start` and `stop`."""

    def __init__(self, bank: Bank, embedder: BlockingEmbedder, lock_file: Path) -> None:
        self._bank = bank
        self._embedder = embedder
        self._lock_file = lock_file
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reembedder", daemon=True)
        self.done = 0
        """Examples embedded since the start."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the text at hand and wait for the thread to end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        again_while_alone(
            self._embed_all,
            self._lock_file,
            self._stopping,
            every_s=_LOOK_AGAIN_S,
            failed="reembedding_failed",
        )

    def _embed_all(self) -> None:
        version, after_id = self._embedder.version, 0
        before = self.done
        while not self._stopping.is_set():
            page = self._bank.without_vector(version, _PAGE, after_id)
            if not page:
                break
            for row in page:
                if self._stopping.wait(_PAUSE_S):
                    break
                after_id = row.id
                self._bank.set_vector(
                    row.id, self._embedder.embed_blocking(row.embedded_text), version
                ).result()
                self.done += 1
        if self.done > before:
            log.info("reembedded", examples=self.done - before, version=version)
