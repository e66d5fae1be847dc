"""Embeds examples without an embedding of the current version: the embedder had failed, or was changed.

Runs on its own thread. The table says which examples are left, so the work continues where it was after any stop; of several
workers only the one that holds the lease works.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import structlog

from store.examples.bank import ExampleBank
from store.jobs.claims import EmbeddingClaims
from store.jobs.leases import Lease, again_while_alone

if TYPE_CHECKING:
    from router.embedding.embedder import BlockingEmbedder

log = structlog.get_logger(__name__)

_PAGE = 50
_PAUSE_S = 0.005
"""Pause between two texts, so that requests get the embedder first."""
_LOOK_AGAIN_S = 30.0


class Reembedder:
    """Works on its own thread between `start` and `stop`."""

    def __init__(
        self, bank: ExampleBank, embedder: BlockingEmbedder, claims: EmbeddingClaims, lease: Lease | None
    ) -> None:
        """`lease`: of such processes; None: several are at it, each with what it claims."""
        self._bank = bank
        self._embedder = embedder
        self._claims = claims
        self._lease = lease
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reembedder", daemon=True)
        self.done = 0
        """Number of examples embedded since the start."""

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stops after the present text and waits for the thread to end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        again_while_alone(
            self._embed_all,
            self._lease,
            self._stopping,
            every_s=_LOOK_AGAIN_S,
            failed="reembedding_failed",
            wanted=lambda: self._bank.without_vector(self._embedder.version, 1),
        )

    def _embed_all(self) -> None:
        version, after_id = self._embedder.version, 0
        before = self.done
        while not self._stopping.is_set():
            page = self._bank.without_vector(version, _PAGE, after_id)
            if not page:
                break
            after_id = page[-1].id
            ids = [row.id for row in page]
            mine = self._claims.take("question", ids) if self._lease is None else set(ids)
            for row in page:
                if row.id not in mine:
                    continue
                if self._stopping.wait(_PAUSE_S):
                    break
                self._bank.set_vector(
                    row.id, self._embedder.embed_blocking(row.embedded_text), version
                ).result()
                self.done += 1
            if self._lease is None and mine:
                self._claims.let_go("question", sorted(mine))
        if self.done > before:
            log.info("reembedded", examples=self.done - before, version=version)
