"""One tenant's proofs, shared by threads and kept with the store: what was decided is written, what others wrote is read.

Everything here blocks for some microseconds, or for a commit: never on the event loop.
"""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future, wait
from typing import Any

from learning.reuse.decision import Explore, Observation, Reuse, SemanticReuse
from learning.reuse.ledger import ReuseSettings
from store.answers.semantic_observations import SemanticObservations, SemanticScope

_REFRESH_S = 1.0
_OVERDUE_S = 5.0
_COMMIT_S = 2.0


class Proofs:
    """The proofs of one scope, in one worker."""

    def __init__(
        self, scope: SemanticScope, settings: ReuseSettings, observations: SemanticObservations
    ) -> None:
        self._scope = scope
        self._observations = observations
        self._reuse = SemanticReuse(settings)
        self._lock = threading.Lock()
        self._unwritten: list[Future[None]] = []
        self._refreshed = -_OVERDUE_S

    def decide(self, entry_id: int, similarity: float, rng: random.Random) -> Reuse | Explore:
        """Decide about an entry. A Reuse is counted, and the count committed, when this returns.

        Raises what reading and writing raise, TimeoutError among it: then ask the model.
        """
        scope, counted = self._scope, None
        with self._lock:
            self._refresh()
            rows = self._observations.of_entries(scope.tenant, scope.embedding_version, [entry_id])
            seen = [Observation(row.similarity, row.is_right) for row in rows.get(entry_id, ())]
            decision = self._reuse.decide(seen, similarity, rng)
            if isinstance(decision, Reuse):
                written = self._reuse.reused()
                counted = self._observations.add_counts(scope, written.phase, written.counts)
                self._unwritten.append(counted)
        if counted is not None:
            counted.result(_COMMIT_S)
        return decision

    def observed(
        self, decision: Explore, entry_id: int, similarity: float, right: bool | None
    ) -> list[Future[None]]:
        """Learn from a comparison and keep it. Raises StoreBusy."""
        scope = self._scope
        with self._lock:
            learnt = self._reuse.observed(decision, similarity, right)
            first, *further = learnt.written
            seen = learnt.observation
            written = [
                self._observations.add(
                    scope, first.phase, entry_id, seen.similarity, seen.right, first.counts
                ),
                *(self._observations.add_counts(scope, each.phase, each.counts) for each in further),
            ]
            self._unwritten += written
        return written

    def abandoned(self, decision: Explore) -> None:
        """There will be no comparison: the model failed, or the client left."""
        with self._lock:
            self._reuse.abandoned(decision)

    def _refresh(self) -> None:
        """Take in what all workers wrote, at most once a second. The caller holds the lock: nothing is added meanwhile."""
        now = time.monotonic()
        age_s = now - self._refreshed
        if age_s < _REFRESH_S:
            return
        waiting: list[Future[Any]] = [future for future in self._unwritten if not future.done()]
        if waiting and age_s >= _OVERDUE_S:
            waiting = list(wait(waiting, _COMMIT_S).not_done)
        self._unwritten = waiting
        # The rows are the truth only once our own are among them.
        if not waiting:
            self._reuse.ledger.restore(self._observations.counts(self._scope))
            self._refreshed = now
