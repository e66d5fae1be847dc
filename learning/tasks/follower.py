"""Keeps the students of tasks open in a worker: the version in use, and some of those before it for the committee."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from learning.learned.follower import Slot, VersionFollower, say_in_use
from learning.tasks.trainer import KIND
from router.tasks.student import Student
from router.tasks.task import Task
from store.changes import LOOK_EVERY_S
from store.learned.artifacts import Artifacts
from store.records import ArtifactRecord

COMMITTEE = 4
"""Versions that are held open per task."""
_KEPT = 128
"""Largest number of tasks whose students are held per worker; each student takes a megabyte or some."""

Members = Sequence[tuple[int, Student]]


class StudentFollower(VersionFollower[Members]):
    """See router.tasks.student.Students."""

    def __init__(
        self,
        artifacts: Artifacts,
        *,
        embedding_version: str,
        broken: Callable[[str], None] = lambda kind: None,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        super().__init__("students", artifacts, _KEPT, broken=broken, look_every_s=look_every_s)
        self._embedding_version = embedding_version

    def of(self, task: Task) -> Members:
        """(version, student) of a task, the one in use first; empty until they were looked for. Never waits."""
        return self._asked((task.tenant, task.slot)) or ()

    def _found(self, slot: Slot, held: Members | None) -> Members:
        members = self._first(self._candidates(*slot), self._open, COMMITTEE)
        before, now = (next((id for id, _ in each), None) for each in (held or (), members))
        say_in_use(KIND, slot, before, now)
        return members

    def _used(self, held: Members) -> Iterable[int]:
        return (id for id, _ in held)

    def _candidates(self, tenant: str, slot: str) -> list[ArtifactRecord]:
        """The version in use, then those that were in use before it, the newest first; none if none is in use."""
        active = self._artifacts.active(KIND, tenant, slot)
        if active is None:
            return []
        every = self._artifacts.versions(KIND, tenant, slot)
        return [active, *(r for r in every if r.state == "retired" and r.id < active.id)]

    def _open(self, record: ArtifactRecord) -> Student:
        data = self._artifacts.read(record)
        return Student.open(data, embedding_version=self._embedding_version)
