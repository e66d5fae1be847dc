"""Holds each task's students open: the version in use and those before it. The request path only reads a dictionary.

One thread polls for new versions, opens and warms them. A version that cannot be opened is counted and passed over, so that
the next best is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from learning.poller import LOOK_EVERY_S, Slot, VersionPoller
from learning.tasks.trainer import KIND
from router.tasks.student import Student
from router.tasks.task import Task
from store.learned.artifacts import Artifacts
from store.records import ArtifactRecord

log = structlog.get_logger(__name__)

COMMITTEE = 4
"""Versions that are held open per task."""
_KEPT = 128
"""Largest number of tasks whose students are held per worker; each student takes a megabyte or some."""

Members = Sequence[tuple[int, Student]]


class StudentFollower(VersionPoller[Members]):
    """See router.tasks.student.Students."""

    def __init__(
        self,
        artifacts: Artifacts,
        *,
        embedding_version: str,
        broken: Callable[[str], None] = lambda kind: None,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        """`broken` is called with the kind of a version that cannot be used."""
        super().__init__("students", artifacts, _KEPT, look_every_s)
        self._embedding_version = embedding_version
        self._count_broken = broken
        self._broken: set[int] = set()

    def of(self, task: Task) -> Members:
        """(version, student) of a task, the one in use first; empty until they were looked for. Never waits."""
        return self._asked((task.tenant, task.slot)) or ()

    def ready(self, task: Task, timeout_s: float = 5.0) -> bool:
        """Waits until a task's versions are as published, and returns whether they are. For tests and tools."""
        return self._is_ready((task.tenant, task.slot), timeout_s)

    def _refresh(self, slot: Slot) -> None:
        members = self._opened(*slot)
        with self._lock:
            self._slots[slot] = members

    def _opened(self, tenant: str, slot: str) -> Members:
        with self._lock:
            open_now = dict(self._slots.get((tenant, slot), ()))
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
