"""What replay changes in the bank, and how it is taken back: answers it replaced, examples it wrote, each with its run.

An old answer is kept beside the example until the example goes, at most a handful per example. Taking back restores the row
as it was; what somebody changed in between is left alone and counted.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from store.database import Connection, Database
from store.examples import rows as example_rows
from store.examples.vectors import to_blob
from store.jobs.replay_jobs import finish_step
from store.jobs.replay_records import StepState
from store.records import Example, NewExample

_KEPT = 4
"""Old answers per example; the oldest go."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A better answer for an example."""

    tenant: str
    example_id: int
    run_id: int
    incumbent: str
    """The answer that was compared: another one that came meanwhile is not overwritten."""
    answer: str
    source_engine: str
    completion_tokens: int
    quality: float


@dataclass(frozen=True, slots=True)
class Version:
    """An answer that an example had before."""

    id: int
    example_id: int
    run_id: int
    at_s: float
    answer: str
    source_engine: str


@dataclass(frozen=True, slots=True)
class Undone:
    """What taking a run, or one example's last replay, back came to."""

    restored: int
    """Examples that have their old answer again."""
    removed: int
    """Examples that replay had written."""
    left: int
    """Examples that somebody changed since: they stay as they are."""


def replace_answer(connection: Connection, new: Replacement, now_s: float) -> bool:
    """Put a better answer in the place of an example's, keeping the old one. Inside somebody's write job.

    False, and nothing is changed, where the example is gone, pinned, given by a person, or has another answer by now. The
    gain that had gathered was the old answer's and starts anew.
    """
    found = example_rows.these(connection, new.tenant, [new.example_id])
    if not found or not replaceable(found[0]) or found[0].answer != new.incumbent:
        return False
    old = found[0]
    connection.execute(
        "INSERT INTO example_versions (tenant, example_id, run_id, at_s, answer, source_engine, completion_tokens,"
        " quality_sum, quality_count, replaced_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(old.tenant, old.id, new.run_id, now_s, old.answer, old.source_engine, old.completion_tokens),
            *(old.quality_sum, old.quality_count, digest(new.answer)),
        ),
    )
    connection.execute(
        "DELETE FROM example_versions WHERE example_id = ?1 AND id NOT IN"
        " (SELECT id FROM example_versions WHERE example_id = ?1 ORDER BY id DESC LIMIT ?2)",
        (old.id, _KEPT),
    )
    _set_answer(connection, old, new.answer, new.source_engine, new.completion_tokens, (new.quality, 1))
    connection.execute("UPDATE example_accounts SET gain = 0, gain_at_s = ? WHERE id = ?", (now_s, old.id))
    return True


def add_variation(
    connection: Connection,
    new: NewExample,
    blob: bytes | None,
    parent_id: int,
    run_id: int,
    generator: str,
    now_s: float,
) -> Example | None:
    """Add an example that was written as a variation of another, which must still be there: None where it is gone.

    The same `new.request_id` again gives the example that is there.
    """
    known = example_rows.by_request(connection, new.tenant, new.request_id)
    if known is not None:
        return known
    if not example_rows.these(connection, new.tenant, [parent_id]):
        return None
    added = example_rows.insert(connection, new, blob, now_s)
    connection.execute(
        "INSERT INTO example_lineage (example_id, tenant, parent_id, run_id, generator, answer_digest, at_s)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (added.id, new.tenant, parent_id, run_id, generator, digest(new.answer), now_s),
    )
    return added


def replaceable(example: Example) -> bool:
    """Whether a machine may change this example's answer at all."""
    return example.kind == "observed" and not example.pinned


def digest(answer: str) -> bytes:
    """Names an answer without telling it."""
    return hashlib.blake2b(answer.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class ExampleVersions:
    """Earlier answers and written variations: reads them, makes them, takes them back."""

    def __init__(self, db: Database, told: Callable[[object], None] = lambda _: None) -> None:
        """`told` is called on the writer's thread after each commit that changed an example."""
        self._db = db
        self._told = told

    def of(self, tenant: str, example_id: int) -> list[Version]:
        """The answers that a tenant's example had before, newest first."""
        rows = self._db.read().execute(
            "SELECT id, example_id, run_id, at_s, answer, source_engine FROM example_versions"
            " WHERE tenant = ? AND example_id = ? ORDER BY id DESC",
            (tenant, example_id),
        )
        return [Version(*row) for row in rows.fetchall()]

    def parent_of(self, tenant: str, example_id: int) -> int | None:
        """The example that this one was written as a variation of; None for one that was not."""
        row = (
            self._db.read()
            .execute(
                "SELECT parent_id FROM example_lineage WHERE tenant = ? AND example_id = ?",
                (tenant, example_id),
            )
            .fetchone()
        )
        return None if row is None else int(row[0])

    def replace(self, new: Replacement, step_id: int, detail: Mapping[str, Any]) -> Future[bool]:
        """Put a better answer in the place of an example's, and finish the step of replay that found it.

        In one transaction: a kill between the two would do it again, or never. False, and the step is skipped, where
        the answer may not be replaced any more: see `replace_answer`.
        """

        def apply(connection: Connection) -> bool:
            replaced = replace_answer(connection, new, time.time())
            state: StepState = "done" if replaced else "skipped"
            finish_step(connection, step_id, state, "replaced" if replaced else "changed_meanwhile", detail)
            return replaced

        return self._db.write(example_rows.alone(self._db, apply), after=self._told)

    def add_variations(
        self,
        news: Sequence[NewExample],
        *,
        parent_id: int,
        run_id: int,
        generator: str,
        step_id: int,
        detail: Mapping[str, Any],
    ) -> Future[bool]:
        """Add variations of an example, and finish the step of replay that wrote them, in one transaction.

        False, and the result is "nothing_new", where none was added: see `add_variation`. Raises BadVector at once.
        """
        blobs = [None if new.vector is None else to_blob(new.vector) for new in news]

        def apply(connection: Connection) -> bool:
            now_s = time.time()
            added = [
                add_variation(connection, new, blob, parent_id, run_id, generator, now_s)
                for new, blob in zip(news, blobs, strict=True)
            ]
            result = "expanded" if any(added) else "nothing_new"
            finish_step(connection, step_id, "done", result, detail)
            return any(added)

        return self._db.write(example_rows.alone(self._db, apply), after=self._told)

    def undo_run(self, run_id: int) -> Future[Undone]:
        """Take back all that a run of replay did to the bank."""
        return self._db.write(
            example_rows.alone(self._db, lambda connection: undo_run(connection, run_id)), after=self._told
        )

    def undo_example(self, tenant: str, example_id: int) -> Future[Undone]:
        """Give a tenant's example the answer that it had before its last replay."""
        return self._db.write(
            example_rows.alone(self._db, lambda connection: undo_example(connection, tenant, example_id)),
            after=self._told,
        )


def undo_run(connection: Connection, run_id: int) -> Undone:
    """Take back all that a run did, newest first. Inside a write job of which the bank's followers hear."""
    rows = connection.execute(
        "SELECT id FROM example_versions WHERE run_id = ? ORDER BY id DESC", (run_id,)
    ).fetchall()
    restored = sum(_restore(connection, id) for (id,) in rows)
    written = connection.execute(
        "SELECT l.tenant, l.example_id, l.answer_digest, e.answer, a.kind, a.pinned FROM example_lineage l"
        " JOIN examples e ON e.id = l.example_id JOIN example_accounts a ON a.id = l.example_id WHERE l.run_id = ?",
        (run_id,),
    ).fetchall()
    removed = 0
    for tenant, id, was, answer, kind, pinned in written:
        if digest(answer) == was and kind == "observed" and not pinned:
            removed += example_rows.remove(connection, tenant, [id], erase=False)
    return Undone(restored, removed, len(rows) - restored + len(written) - removed)


def undo_example(connection: Connection, tenant: str, example_id: int) -> Undone:
    """Give a tenant's example the answer that it had before its last replay."""
    row = connection.execute(
        "SELECT max(id) FROM example_versions WHERE tenant = ? AND example_id = ?", (tenant, example_id)
    ).fetchone()
    if row[0] is None:
        return Undone(0, 0, 0)
    restored = _restore(connection, row[0])
    return Undone(int(restored), 0, int(not restored))


def _restore(connection: Connection, version_id: int) -> bool:
    tenant, example_id, answer, engine, tokens, quality_sum, quality_count, replaced_by = connection.execute(
        "SELECT tenant, example_id, answer, source_engine, completion_tokens, quality_sum, quality_count, replaced_by"
        " FROM example_versions WHERE id = ?",
        (version_id,),
    ).fetchone()
    found: Sequence[Example] = example_rows.these(connection, tenant, [example_id])
    if not found or not replaceable(found[0]) or digest(found[0].answer) != replaced_by:
        return False
    connection.execute("DELETE FROM example_versions WHERE id = ?", (version_id,))
    _set_answer(connection, found[0], answer, engine, tokens, (quality_sum, quality_count))
    return True


def _set_answer(
    connection: Connection,
    old: Example,
    answer: str,
    engine: str,
    completion_tokens: int,
    judged: tuple[float, int],
) -> None:
    connection.execute(
        "UPDATE examples SET answer = ?, source_engine = ?, completion_tokens = ? WHERE id = ?",
        (answer, engine, completion_tokens, old.id),
    )
    connection.execute(
        "UPDATE example_accounts SET size_bytes = size_bytes + ?, quality_sum = ?, quality_count = ? WHERE id = ?",
        (example_rows.text_bytes(answer) - len(old.answer.encode()), *judged, old.id),
    )
    example_rows.refresh_worth(connection, old.id)
