"""Holds each task's students open: the version in use and those before it. The request path only reads a dictionary.

One thread polls for new versions, opens and warms them. A version that cannot be opened is counted and passed over, so that
the next best is used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import structlog
from cachetools import LRUCache

from learning.tasks.trainer import KIND
from router.tasks.student import Student
from router.tasks.task import Task
from store.learned.artifacts import Artifacts
from store.records import ArtifactRecord

log = structlog.get_logger(__name__)

COMMITTEE = 4
"""Versions that are held open per task."""
_LOOK_EVERY_S = 0.25
_KEPT = 128
"""Largest number of tasks whose students are held per worker; each student takes a megabyte or some."""

Members = Sequence[tuple[int, Student]]


class StudentFollower:
    """See router.tasks.student.Students. Polls on its own thread between `start` and `stop`."""

    def __init__(
        self,
        artifacts: Artifacts,
        *,
        embedding_version: str,
        broken: Callable[[str], None] = lambda kind: None,
        look_every_s: float = _LOOK_EVERY_S,
    ) -> None:
        """`broken` is called with the kind of a version that cannot be used."""
        self._artifacts = artifacts
        self._embedding_version = embedding_version
        self._count_broken = broken
        self._look_every_s = look_every_s
        self._held: LRUCache[tuple[str, str], Members] = LRUCache(_KEPT)
        self._wanted: set[tuple[str, str]] = set()
        self._broken: set[int] = set()
        self._seen = -1
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="students", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. What is open stays usable until nobody holds it."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def of(self, task: Task) -> Members:
        """(version, student) of a task, the one in use first; empty until they were looked for. Never waits."""
        key = (task.tenant, task.slot)
        with self._lock:
            members = self._held.get(key)
            if members is not None:
                return members
            self._wanted.add(key)
        self._wake.set()
        return ()

    def ready(self, task: Task, timeout_s: float = 5.0) -> bool:
        """Waits until a task's versions are as published, and returns whether they are. For tests and tools."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            self.of(task)
            with self._lock:
                held = (task.tenant, task.slot) in self._held
            if held and self._seen == self._artifacts.generation():
                return True
            time.sleep(0.01)
        return False

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._look_every_s)
            self._wake.clear()
            try:
                self._look()
            except Exception as error:
                log.error("learned_failed", error=error)

    def _look(self) -> None:
        generation = self._artifacts.generation()
        with self._lock:
            wanted, self._wanted = self._wanted, set()
            stale = list(self._held) if generation != self._seen else []
        for key in {*wanted, *stale}:
            members = self._opened(*key)
            with self._lock:
                self._held[key] = members
        self._seen = generation

    def _opened(self, tenant: str, slot: str) -> Members:
        with self._lock:
            open_now = dict(self._held.get((tenant, slot), ()))
        members: list[tuple[int, Student]] = []
        for record in self._candidates(tenant, slot):
            student = open_now.get(record.id) or self._open(record)
            if student is not None:
                members.append((record.id, student))
            if len(members) == COMMITTEE:
                break
        if members and members[0][0] not in open_now:
            log.info("artifact_in_use", kind=KIND, id=members[0][0], tenant=tenant, model=slot)
        elif open_now and not members:
            log.info("artifact_out_of_use", kind=KIND, id=next(iter(open_now)), tenant=tenant, model=slot)
        return members

    def _candidates(self, tenant: str, slot: str) -> list[ArtifactRecord]:
        """The version in use, then those that were in use before it, the newest first; none where none is in use."""
        active = self._artifacts.active(KIND, tenant, slot)
        if active is None:
            return []
        every = self._artifacts.versions(KIND, tenant, slot)
        return [active, *(r for r in every if r.state == "retired" and r.id < active.id)]

    def _open(self, record: ArtifactRecord) -> Student | None:
        if record.id in self._broken:
            return None
        try:
            return Student.open(self._artifacts.read(record), embedding_version=self._embedding_version)
        except Exception as error:
            # Any exception: one task's version must not keep the others from theirs.
            self._broken.add(record.id)
            self._count_broken(KIND)
            log.error("artifact_broken", kind=KIND, id=record.id, model=record.model, error=error)
            return None
