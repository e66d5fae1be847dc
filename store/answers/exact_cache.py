"""Answers kept for exact repeats of a request: in memory first, then in the database. Knows keys and bytes, no request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from cachetools import Cache, LRUCache

from store.answers.wrong_answers import EXACT_GENERATION
from store.database import Connection, Database
from store.errors import StoreBusy, StoreClosed
from store.generation import Generation
from store.inserting import replacing
from store.records import HELD_BACK_S, ExactAnswer, Example
from store.written_together import write_each

_ENTRY_OVERHEAD_BYTES = 512
"""What a row or a memory entry costs beside its body, roughly."""
_NOTE_USE_EVERY_S = 5.0
_EVICT_ROWS = 64
CLOCKS_APART_S = 60.0
"""Between two clocks that are right. An answer from further ahead was stored by one that was wrong: its age is unknown."""


class Put(NamedTuple):
    """An answer to be kept. See ExactCache.put."""

    key: bytes
    tenant: str
    answer: ExactAnswer
    request_id: str
    contributor: str | None


_NOTHING_EXPECTED: tuple[Callable[[], ExactAnswer | None], Sequence[Example]] = (lambda: None, ())


class ExactCache:
    """Answers by exact key. Neither expired ones are served nor, from its commit on, what any process has deleted.

    `ttl_s`: how long after `stored_at_s` an answer may be replayed. `memory_bytes` and `disk_bytes` bound the two
    tiers (bodies plus a flat overhead); the least recently used go first. A body over `max_entry_bytes` is not kept.
    """

    def __init__(
        self, db: Database, *, ttl_s: float, memory_bytes: int, disk_bytes: int, max_entry_bytes: int
    ) -> None:
        self._db = db
        self._ttl_s = ttl_s
        self._disk_bytes = disk_bytes
        self._max_entry_bytes = max_entry_bytes
        self._lock = threading.Lock()
        self._memory: LRUCache[bytes, ExactAnswer] = LRUCache(memory_bytes, getsizeof=_size_bytes)
        self._memory_bytes = memory_bytes
        self._expected: dict[bytes, tuple[Callable[[], ExactAnswer | None], Sequence[Example]]] = {}
        """By key, what reads an answer that is still to be put, and the examples that it was made with."""
        self._used: dict[bytes, tuple[int, float]] = {}
        """By key, how often since it was last written, and when last."""
        self._next_note_s = time.monotonic() + _NOTE_USE_EVERY_S
        self._generation = Generation(db, EXACT_GENERATION, check_every_s=0.0)
        self._held_at = self._generation.value()
        """The generation of what is in memory."""

    def get(self, key: bytes, now_s: float) -> ExactAnswer | None:
        """The answer that may be replayed at `now_s` (seconds since the epoch), or None. Microseconds; no waiting."""
        return self._given(key, self._in_memory(key) or self._on_disk(key, now_s), now_s)

    async def find(self, key: bytes, now_s: float) -> ExactAnswer | None:
        """The same for an event loop: what is in memory at once, the rest in time. Raises StoreError, ReadLate among it."""
        if self._db.reads.inline:
            return self.get(key, now_s)
        held = self._given(key, self._in_memory(key), now_s)
        return held or await self._db.reads.in_time(self.get, key, now_s)

    def _given(self, key: bytes, answer: ExactAnswer | None, now_s: float) -> ExactAnswer | None:
        if answer is None:
            return None
        if not self._fresh(answer, now_s):
            with self._lock:
                self._memory.pop(key, None)
            return None
        self._note_use(key, now_s)
        return answer

    def expect(
        self, key: bytes, answer: Callable[[], ExactAnswer | None], examples: Sequence[Example] = ()
    ) -> None:
        """An answer is about to be put under this key: until `expect_no_more`, `get` calls `answer` for it.

        `answer` gives None where there is none after all; it takes less than a tenth of a millisecond. `examples`: those
        that it was made with. Never blocks.
        """
        if self._db.reads.inline or not examples:
            self._expected[key] = answer, examples

    def expect_no_more(self, key: bytes) -> None:
        """What was expected under this key has been put, or is not to be."""
        self._expected.pop(key, None)

    def put(
        self,
        key: bytes,
        tenant: str,
        answer: ExactAnswer,
        *,
        request_id: str = "",
        examples: Sequence[Example] = (),
        contributor: str | None = None,
        unread: bool = False,
    ) -> Future[bool]:
        """Keep an answer: in memory at once, on disk when the future says True. False: it is over the size cap, one of its
        examples is not what it was when it was sent, somebody has corrected the answer to this request, or it is
        `unread` and there is one.

        `unread`: nobody could look in time whether there is one. That one stays then, as nothing speaks against it, and
        what other processes hold in memory stays with it.

        `request_id` names the request that it was given to, `examples` those that it was made with,
        `contributor` whom it answered: empty for nobody in particular, None where nobody knows. Raises StoreBusy when
        too much already waits to be written; memory has it nevertheless.
        """
        answer = self._own(answer)
        size_bytes = _size_bytes(answer)
        large = len(answer.body) > self._max_entry_bytes or size_bytes > self._disk_bytes
        inline = self._db.reads.inline
        if large or (inline and not _all_stand(self._db.read(), examples)):
            refused: Future[bool] = Future()
            refused.set_result(False)
            return refused
        # This may be an event loop's thread: elsewhere only the transaction looks whether the examples stand.
        at_once = not unread and (inline or not examples)
        generation = -1 if at_once else self._generation.value()
        if at_once:
            self._keep(key, answer)

        def written(is_kept: bool) -> None:
            if is_kept and not at_once:
                self._keep(key, answer, generation)

        def insert(connection: Connection) -> bool:
            if examples:
                # So that none of them is taken back between this look and the commit.
                self._db.hold(connection, "examples")
            if not _all_stand(connection, examples):
                # Taken back a moment ago: out of memory, too.
                self._generation.bump(connection)
                return False
            total_bytes, before_s, corrected = connection.execute(_LOOK, (key,)).fetchone()
            if before_s is not None and before_s + self._ttl_s > answer.stored_at_s:
                if unread:
                    return False
                # Others may hold the answer that this one replaces, or this process one that may not replace it.
                self._generation.bump(connection)
                if corrected:
                    return False
            _upsert(connection, key, tenant, answer, request_id, contributor)
            _attach(connection, key, examples, anew=before_s is not None)
            if total_bytes + size_bytes > self._disk_bytes:
                self._make_room(connection, answer.stored_at_s)
            return True

        return self._db.write(insert, after=written, patient=True)

    def put_all(self, puts: Sequence[Put]) -> Future[None]:
        """The same of answers that were made without examples, in one job; done once they are on disk. Raises StoreBusy."""
        wanted: dict[bytes, tuple[Put]] = {}
        for put in puts:
            put = put._replace(answer=self._own(put.answer))
            size_bytes = _size_bytes(put.answer)
            if len(put.answer.body) <= self._max_entry_bytes and size_bytes <= self._disk_bytes:
                self._keep(put.key, put.answer)
                wanted[put.key] = (put,)

        def insert_all(connection: Connection) -> None:
            self._insert(connection, [put for (put,) in wanted.values()])

        def insert_one(connection: Connection, put: Put) -> None:
            self._insert(connection, [put])

        return write_each(self._db, insert_one, list(wanted.values()), together=insert_all)

    def _insert(self, connection: Connection, puts: Sequence[Put]) -> None:
        keys = [put.key for put in puts]
        found = connection.execute(f"{_THERE} ({', '.join('?' * len(keys))})", keys).fetchall()
        there = {bytes(key): (before_s, corrected) for key, before_s, corrected in found}
        for put in puts:
            if put.key in there:
                before_s, corrected = there[put.key]
                if before_s + self._ttl_s > put.answer.stored_at_s:
                    # Others may hold the answer that this one replaces, or this process one that may not replace it.
                    self._generation.bump(connection)
                    if corrected:
                        continue
                _attach(connection, put.key, (), anew=True)
            row = _upserted(put.key, put.tenant, put.answer, put.request_id, put.contributor)
            self._db.append(connection, _UPSERT, row)
        (total_bytes,) = connection.execute("SELECT sum(total_bytes) FROM exact_size").fetchone()
        if total_bytes + sum(_size_bytes(put.answer) for put in puts) > self._disk_bytes:
            self._db.settle(connection)
            self._make_room(connection, max(put.answer.stored_at_s for put in puts))

    def _own(self, answer: ExactAnswer) -> ExactAnswer:
        # What orjson wrote lies in a block that was made for much more: 300 bytes take 4 KB, 5 KB take 64.
        body = bytes(memoryview(answer.body))
        told = answer.content_type, answer.engine, answer.stored_at_s, answer.usage_estimated
        return ExactAnswer(body, *told, self._ttl_s)

    def correct(
        self,
        key: bytes,
        tenant: str,
        answer: ExactAnswer,
        *,
        request_id: str,
        example: Example,
        contributor: str | None,
    ) -> Future[bool]:
        """Give a corrected answer to a request from now on, whoever is asked; no engine's answer takes its place.

        It goes with the example that the correction became. `contributor`: as of `put`. False: it is over the size cap, or
        the example does not stand any more. Raises StoreBusy.
        """
        answer = replace(answer, ttl_s=self._ttl_s)

        def insert(connection: Connection) -> bool:
            self._db.hold(connection, "examples")
            if len(answer.body) > self._max_entry_bytes or not _all_stand(connection, [example]):
                return False
            _upsert(connection, key, tenant, answer, request_id, contributor, corrected=True)
            _attach(connection, key, [example], anew=True)
            self._generation.bump(connection)
            self._make_room(connection, answer.stored_at_s)
            return True

        return self._db.write(insert)

    def forget(
        self,
        *,
        tenant: str | None = None,
        contributors: Sequence[str] | None = None,
    ) -> Future[int]:
        """Delete every answer, or only a tenant's; gives how many. See CacheListing.purge for other choices.

        `contributors`: of a tenant's, only those that answered one of them, or nobody knows whom. See Database.erase for
        the bytes on disk.
        """
        named = None if contributors is None else json.dumps(list(contributors))

        def delete(connection: Connection) -> int:
            self._generation.bump(connection)
            return connection.execute(
                "DELETE FROM exact_answers WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR contributor IS NULL"
                " OR contributor IN (SELECT value FROM json_each(?2)))",
                (tenant, named),
            ).rowcount

        return self._db.write(delete, after=lambda _: self._db.scrub_soon())

    def answered(self, key: bytes) -> str | None:
        """Whom the answer under a key answered; None where it is gone, or nobody knows."""
        row = (
            self._db.read().execute("SELECT contributor FROM exact_answers WHERE key = ?", (key,)).fetchone()
        )
        return None if row is None else row[0]

    def trim(self, now_s: float) -> Future[int]:
        """Delete what has expired by `now_s`; gives how many on disk. Expired answers are never served, trimmed or not."""
        self._let_go_of_expired(now_s)
        return self._db.write(
            lambda connection: (
                connection.execute(_DELETE_EXPIRED, (now_s - self._ttl_s, now_s + CLOCKS_APART_S)).rowcount
            )
        )

    def count(self, tenant: str) -> int:
        """How many answers a tenant has."""
        row = self._db.read().execute("SELECT count(*) FROM exact_answers WHERE tenant = ?", (tenant,))
        return int(row.fetchone()[0])

    def size_bytes(self) -> int:
        """What the answers on disk count for, over all tenants."""
        row: tuple[int] = self._db.read().execute("SELECT sum(total_bytes) FROM exact_size").fetchone()
        return row[0]

    def flush_uses(self) -> Future[None] | None:
        """Hand over the noted uses now; None if there are none. Eviction goes by them."""
        with self._lock:
            used, self._used = self._used, {}
            self._next_note_s = time.monotonic() + _NOTE_USE_EVERY_S
        if not used:
            return None
        rows = [(last_used_at_s, hits, key) for key, (hits, last_used_at_s) in sorted(used.items())]

        def update(connection: Connection) -> None:
            connection.executemany(
                "UPDATE exact_answers SET last_used_at_s = max(last_used_at_s, ?), hits = hits + ? WHERE key = ?",
                rows,
            )

        return self._db.write(update)

    def _fresh(self, answer: ExactAnswer, now_s: float) -> bool:
        return answer.stored_at_s - CLOCKS_APART_S <= now_s < answer.stored_at_s + self._ttl_s

    def _awaited(self, key: bytes) -> ExactAnswer | None:
        answer, examples = self._expected.get(key, _NOTHING_EXPECTED)
        found = answer()
        if found is None or len(found.body) > self._max_entry_bytes:
            return None
        stands = not examples or _all_stand(self._db.read(), examples)
        return replace(found, ttl_s=self._ttl_s) if stands else None

    def _in_memory(self, key: bytes) -> ExactAnswer | None:
        if key in self._expected and (awaited := self._awaited(key)) is not None:
            return awaited
        if key not in self._memory:
            # What is not held needs no look whether anything was deleted.
            return None
        generation = self._generation.value()
        with self._lock:
            self._hold(generation)
            return self._memory.get(key)

    def _on_disk(self, key: bytes, now_s: float) -> ExactAnswer | None:
        # Before the row is read: what is committed between the two is seen by the next look into memory.
        generation = self._generation.value()
        row = self._db.read().execute(_SELECT, (key,)).fetchone()
        with self._lock:
            self._hold(generation)
        if row is None:
            return None
        answer = ExactAnswer(row[0], row[1], row[2], row[3], bool(row[4]), self._ttl_s)
        if self._fresh(answer, now_s):
            self._keep(key, answer, generation)
        return answer

    def _let_go_of_expired(self, now_s: float) -> None:
        for key in list(self._memory):
            with self._lock, suppress(KeyError):
                # LRUCache's own look would make it the one used last.
                if not self._fresh(Cache.__getitem__(self._memory, key), now_s):
                    del self._memory[key]

    def _hold(self, generation: int) -> None:
        """Under the lock: let go of what was held of another generation."""
        if generation != self._held_at:
            self._memory.clear()
            self._held_at = generation

    def _keep(self, key: bytes, answer: ExactAnswer, generation: int | None = None) -> None:
        if _size_bytes(answer) <= self._memory_bytes:
            with self._lock:
                # What was read before a deletion must not come back into memory after it.
                if generation is None or generation == self._held_at:
                    self._memory[key] = answer

    def _note_use(self, key: bytes, now_s: float) -> None:
        with self._lock:
            self._used[key] = self._used.get(key, (0, 0.0))[0] + 1, now_s
            due = time.monotonic() >= self._next_note_s
        if due:
            # Losing a note of use costs an eviction in the wrong order, at worst.
            try:
                self.flush_uses()
            except (StoreBusy, StoreClosed):
                return

    def _make_room(self, connection: Connection, now_s: float) -> None:
        (total_bytes,) = connection.execute("SELECT sum(total_bytes) FROM exact_size").fetchone()
        if total_bytes <= self._disk_bytes:
            return
        connection.execute(_DELETE_EXPIRED, (now_s - self._ttl_s, now_s + CLOCKS_APART_S))
        while True:
            (total_bytes,) = connection.execute("SELECT sum(total_bytes) FROM exact_size").fetchone()
            excess_bytes = total_bytes - self._disk_bytes
            if excess_bytes <= 0:
                return
            oldest = connection.execute(
                "SELECT id, size_bytes FROM exact_answers ORDER BY last_used_at_s, id LIMIT ?", (_EVICT_ROWS,)
            ).fetchall()
            for id, size_bytes in oldest:
                connection.execute("DELETE FROM exact_answers WHERE id = ?", (id,))
                excess_bytes -= size_bytes
                if excess_bytes <= 0:
                    return


_SELECT = "SELECT body, content_type, engine, stored_at_s, usage_estimated FROM exact_answers WHERE key = ?"
_THERE = "SELECT key, stored_at_s, corrected FROM exact_answers WHERE key IN"
_LOOK = (
    "SELECT (SELECT sum(total_bytes) FROM exact_size), a.stored_at_s, a.corrected"
    " FROM (SELECT 1) one LEFT JOIN exact_answers a ON a.key = ?"
)
"""One row always: what all answers count for, and of the answer under a key what an insertion goes by."""
_ATTACH = (
    "INSERT INTO exact_answer_examples (example_id, key)"
    " SELECT CAST(value AS INTEGER), ? FROM json_each(?) WHERE TRUE ON CONFLICT DO NOTHING"
)
_STANDING = (
    "SELECT e.id, e.question, e.answer FROM examples e JOIN example_accounts a ON a.id = e.id"
    " WHERE e.id IN (SELECT CAST(value AS INTEGER) FROM json_each(?)) AND a.served_from_s < ?"
)
_DELETE_EXPIRED = "DELETE FROM exact_answers WHERE stored_at_s <= ? OR stored_at_s > ?"
_UPSERT = replacing(
    "exact_answers",
    "key, tenant, stored_at_s, last_used_at_s, size_bytes, engine, content_type, usage_estimated, body, request_id,"
    " contributor, corrected",
    key="key",
    kept="tenant",
    also="hits = 0",
)


def _upsert(
    connection: Connection,
    key: bytes,
    tenant: str,
    answer: ExactAnswer,
    request_id: str,
    contributor: str | None,
    *,
    corrected: bool = False,
) -> None:
    row = _upserted(key, tenant, answer, request_id, contributor, corrected=corrected)
    connection.execute(_UPSERT.sql, row)


def _upserted(
    key: bytes,
    tenant: str,
    answer: ExactAnswer,
    request_id: str,
    contributor: str | None,
    *,
    corrected: bool = False,
) -> tuple[object, ...]:
    at_s, size_bytes = answer.stored_at_s, _size_bytes(answer)
    told = answer.engine, answer.content_type, answer.usage_estimated, answer.body
    return (key, tenant, at_s, at_s, size_bytes, *told, request_id, contributor, corrected)


def _attach(connection: Connection, key: bytes, examples: Sequence[Example], *, anew: bool) -> None:
    """Note which examples an answer was made with. `anew`: and none of those of an earlier one."""
    if anew:
        connection.execute("DELETE FROM exact_answer_examples WHERE key = ?", (key,))
    if examples:
        connection.execute(_ATTACH, (key, _ids(examples)))


def _all_stand(connection: Connection, examples: Sequence[Example]) -> bool:
    """Whether these examples are as they were: neither removed, nor corrected, nor quarantined by hand."""
    if not examples:
        return True
    rows = connection.execute(_STANDING, (_ids(examples), HELD_BACK_S)).fetchall()
    standing = {id: (question, answer) for id, question, answer in rows}
    return all(standing.get(example.id) == (example.question, example.answer) for example in examples)


def _ids(examples: Sequence[Example]) -> str:
    return json.dumps([example.id for example in examples])


def _size_bytes(answer: ExactAnswer) -> int:
    return len(answer.body) + _ENTRY_OVERHEAD_BYTES
