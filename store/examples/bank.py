"""The bank of examples and the log that workers follow: every change has a place in it, removals too.

Knows rows. Which pair deserves to become an example, and which example helps, is decided elsewhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import astuple
from typing import Any, TypeVar

from store.answers.wrong_answers import drop_answers
from store.database import Connection, Database
from store.examples import rows as example_rows
from store.examples.accounting import Ledger
from store.examples.admitting import admit
from store.examples.answer_vectors import AnswerVectors, CandidateVectors
from store.examples.capacity import Compacted, Evicted, compact, make_room
from store.examples.contributors import Contributors
from store.examples.imports import ImportCursors
from store.examples.places import ExamplePlaces
from store.examples.private_bank import PrivateBank, is_private
from store.examples.rows import SELECT, as_example
from store.examples.search import ExampleSearch
from store.examples.twins import TwinRule
from store.examples.vectors import from_blob, to_blob
from store.examples.versions import ExampleVersions
from store.records import (
    HELD_BACK_S,
    Admitted,
    Change,
    Depending,
    Example,
    Exported,
    Kind,
    NewExample,
    Restored,
    Totals,
    Unembedded,
    Vector,
)

T = TypeVar("T")

_SCOPE_READ = 1000
"""Examples of a scope that are compared one by one, the latest first: some milliseconds."""


class ExampleBank:
    """Adds, reads and removes examples. Every read names a tenant or is for the store's own housekeeping."""

    def __init__(self, db: Database, *, twin_rule: TwinRule | None = None) -> None:
        self._db = db
        self._twin_rule = twin_rule or TwinRule()
        self._listeners: list[Callable[[], None]] = []
        self.ledger = Ledger(db)
        """Uses, gain and judgements: noted here, written by `flush_uses`."""
        self.search = ExampleSearch(db)
        self.versions = ExampleVersions(db, told=self._tell)
        """Answers that replay replaced, and examples that it wrote."""
        self.answer_vectors = AnswerVectors(db)
        self.places = ExamplePlaces(db)
        """Where examples stand on a flat map."""
        self.contributors = Contributors(db)
        self.imports = ImportCursors(db)
        self.private = PrivateBank(db)
        """Questions of private tenants, put aside; and what was told of them."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have `listener` called on the writer's thread after each commit of ours that changed the log. Be quick."""
        self._listeners.append(listener)

    # ---- in

    def admit(self, new: NewExample) -> Future[Admitted]:
        """Keep a pair, or merge it into its twin. The future tells what became of it, once that is committed.

        The same (tenant, request_id) again gives the example that stands for it already, also when it was merged; an
        empty request_id is never the same. Without `new.neighbours` nothing is merged. Raises BadVector, ValueError
        (a quality outside 0 to 1) or StoreBusy at once.
        """
        job = self._admission(new)
        return self._write(job, self._tell)

    def add(self, new: NewExample) -> Future[Example]:
        """`admit`, for who only wants the example that stands for the pair."""
        job = self._admission(new)
        return self._write(lambda connection: job(connection).example, self._tell)

    def restore_many(self, rows: Sequence[Restored]) -> Future[list[Admitted]]:
        """Admit some hundreds of exported pairs in one transaction, all or none. What is known already is left as it is.

        Raises BadVector or StoreBusy at once.
        """
        blobs = [None if row.new.vector is None else to_blob(row.new.vector) for row in rows]
        now_s = time.time()

        def job(connection: Connection) -> list[Admitted]:
            done = []
            for row, blob in zip(rows, blobs, strict=True):
                admitted = admit(connection, row.new, blob, now_s, self._twin_rule)
                if admitted.outcome == "added":
                    _give_back(connection, admitted.example.id, row)
                done.append(admitted)
            return done

        return self._write(job, self._tell)

    def set_vector(
        self, id: int, vector: Vector, version: str, *, instead: tuple[str, str] | None = None
    ) -> Future[bool]:
        """Give an example its vector; the change takes a new place in the log. False if the example is gone.

        `instead`: the embedded text that it has, and the one that the vector is of; False if it has another by now.
        Raises BadVector or StoreBusy at once.
        """
        blob = to_blob(vector)

        def update(connection: Connection) -> bool:
            row = connection.execute(
                "SELECT length(vector), embedded_text FROM examples WHERE id = ?", (id,)
            ).fetchone()
            if row is None or (instead is not None and row[1] != instead[0]):
                return False
            text = row[1] if instead is None else instead[1]
            connection.execute(
                "UPDATE examples SET vector = ?, embedding_version = ?, embedded_text = ?, seq = ? WHERE id = ?",
                (blob, version, text, example_rows.next_seq(connection), id),
            )
            grown = len(blob) - (row[0] or 0) + example_rows.text_bytes(text) - len(row[1].encode())
            if grown:
                connection.execute(
                    "UPDATE example_accounts SET size_bytes = size_bytes + ? WHERE id = ?", (grown, id)
                )
                example_rows.refresh_worth(connection, id)
            return True

        return self._write(update, self._tell)

    def update(
        self,
        tenant: str,
        id: int,
        *,
        answer: str | None = None,
        kind: Kind | None = None,
        contributor: str | None = None,
        pinned: bool | None = None,
        flagged: bool | None = None,
        served_from_s: float | None = None,
    ) -> Future[Example | None]:
        """Change what is named of a tenant's example; gives it as it is then, None if the tenant has no such example.

        A new answer takes the old one's judgements with it. With the old answer, and with one that is put in quarantine by
        hand, goes what would be given again of it: see drop_answers. Raises StoreBusy at once.
        """
        changes = {
            "kind": kind,
            "contributor": contributor,
            "pinned": pinned,
            "flagged": flagged,
            "served_from_s": served_from_s,
        }

        def change(connection: Connection) -> Example | None:
            found = example_rows.these(connection, tenant, [id])
            # Somebody's own words must not get into a private tenant's bank this way either.
            if not found or (answer is not None and is_private(connection, tenant)):
                return None
            for column, value in changes.items():
                if value is not None:
                    connection.execute(f"UPDATE example_accounts SET {column} = ? WHERE id = ?", (value, id))  # noqa: S608
            corrected = answer is not None and answer != found[0].answer
            if corrected or served_from_s == HELD_BACK_S:
                drop_answers(connection, tenant, examples=[id])
            if answer is not None and corrected:
                connection.execute("UPDATE examples SET answer = ? WHERE id = ?", (answer, id))
                grown = example_rows.text_bytes(answer) - len(found[0].answer.encode())
                connection.execute(
                    "UPDATE example_accounts SET size_bytes = size_bytes + ? WHERE id = ?", (grown, id)
                )
                example_rows.begin_anew(connection, id)
            return example_rows.these(connection, tenant, [id])[0]

        return self._write(change)

    # ---- changed by a person

    def rewrite(
        self,
        tenant: str,
        id: int,
        *,
        question: str,
        answer: str,
        embedded_text: str,
        vector: Vector | None,
        embedding_version: str,
        check: Callable[[Example], None] = lambda example: None,
    ) -> Future[Example | None]:
        """Give an example other texts; gives it as it is then, or None if there is none.

        Its judgements were of the old answer and go with it, as does what would be given again of it: see drop_answers.
        Without a vector it is not found until the gateway has made one. `check` gets it as it is, inside the transaction;
        the future raises what it raises. Raises BadVector or StoreBusy.
        """
        blob = None if vector is None else to_blob(vector)

        def change(connection: Connection) -> Example | None:
            found = example_rows.these(connection, tenant, [id])
            if not found:
                return None
            check(found[0])
            connection.execute(
                "UPDATE examples SET seq = ?, question = ?, answer = ?, embedded_text = ?, vector = ?,"
                " embedding_version = ? WHERE id = ?",
                (
                    example_rows.next_seq(connection),
                    question,
                    answer,
                    embedded_text,
                    blob,
                    embedding_version,
                    id,
                ),
            )
            size_bytes = example_rows.size_bytes_of(question, answer, embedded_text, len(blob or b""))
            connection.execute("UPDATE example_accounts SET size_bytes = ? WHERE id = ?", (size_bytes, id))
            drop_answers(connection, tenant, examples=[id])
            if answer != found[0].answer:
                example_rows.begin_anew(connection, id)
            else:
                example_rows.refresh_worth(connection, id)
            return example_rows.these(connection, tenant, [id])[0]

        return self._write(change, self._purge_words)

    def hold_back(self, tenant: str, id: int) -> Future[Example | None]:
        """Quarantine: no request is answered with it from its commit on, until it is let go."""
        return self.update(tenant, id, served_from_s=HELD_BACK_S)

    def let_go(self, tenant: str, id: int) -> Future[Example | None]:
        """End a quarantine, whoever began it."""
        return self.update(tenant, id, served_from_s=time.time())

    def pin(self, tenant: str, id: int, *, pinned: bool) -> Future[Example | None]:
        """Keep it whatever the caps say and whatever its twins answer; or no longer."""
        return self.update(tenant, id, pinned=pinned)

    # ---- out

    @property
    def inline(self) -> bool:
        """Whether examples are read in tenths of a millisecond, on an event loop, too."""
        return self._db.reads.inline

    def by_ids(self, tenant: str, ids: Sequence[int], *, serving: bool = True) -> list[Example]:
        """The tenant's examples with these ids, in the order asked for.

        Ids that are gone, or that belong to another tenant, are left out; so are those still in quarantine, unless
        `serving` is false.
        """
        found = example_rows.these(self._db.read(), tenant, ids)
        now_s = time.time()
        return [example for example in found if not serving or example.served_from_s <= now_s]

    def get(self, tenant: str, id: int) -> Example | None:
        """One example of the tenant's, in quarantine or not; None if the tenant has no such example."""
        found = example_rows.these(self._db.read(), tenant, [id])
        return found[0] if found else None

    def page(
        self,
        tenant: str,
        *,
        after_id: int = 0,
        limit: int = 100,
        kind: Kind | None = None,
        end_user: str = "",
    ) -> list[Example]:
        """The tenant's next examples by id, at most `limit`: for lists and exports. Of one kind, or one end user (a
        digest), if it is named."""
        of_kind = {
            None: "",
            "observed": " AND a.kind = 'observed'",
            "demonstration": " AND a.kind = 'demonstration'",
        }
        rows = self._db.read().execute(
            SELECT
            + " WHERE a.tenant = ? AND a.id > ?"
            + of_kind[kind]
            + (" AND e.scope LIKE '%/' || ?" if end_user else "")
            + " ORDER BY a.id LIMIT ?",
            (tenant, after_id, *((end_user,) if end_user else ()), limit),
        )
        return [as_example(row) for row in rows.fetchall()]

    def newest(self, tenant: str, limit: int) -> list[Example]:
        """The tenant's latest examples, newest first."""
        rows = self._db.read().execute(
            SELECT + " WHERE a.tenant = ? ORDER BY a.id DESC LIMIT ?", (tenant, limit)
        )
        return [as_example(row) for row in rows.fetchall()]

    def exported(self, tenant: str) -> Iterator[Exported]:
        """All of a tenant's examples, oldest first, page by page. What is added meanwhile comes last."""
        after_id = 0
        while True:
            read = self._db.read()
            rows = read.execute(_EXPORTED, (tenant, after_id, _EXPORTED_AT_ONCE)).fetchall()
            if not rows:
                return
            after_id = rows[-1][0]
            whole = {e.id: e for e in example_rows.these(read, tenant, [row[0] for row in rows])}
            for id, embedded_text, blob in rows:
                if id in whole:
                    yield Exported(whole[id], embedded_text, None if blob is None else from_blob(blob))

    def by_request(self, tenant: str, request_id: str) -> Example | None:
        """The example that stands for a request, its own or one into which its pair was merged; None for none."""
        return example_rows.by_request(self._db.read(), tenant, request_id)

    def tenant_of(self, id: int) -> str | None:
        """Whose example this is; None if it is nobody's."""
        row = self._db.read().execute("SELECT tenant FROM example_accounts WHERE id = ?", (id,)).fetchone()
        return None if row is None else str(row[0])

    def vectors_of(self, tenant: str, ids: Sequence[int], version: str) -> dict[int, Vector]:
        """The vectors of these examples of the tenant's that have one of this embedding version."""
        rows = self._db.read().execute(_VECTORS_OF, (json.dumps(list(ids)), tenant, version))
        return {id: from_blob(blob) for id, blob in rows.fetchall()}

    def nearest_in(
        self, tenant: str, scope: str, vector: Vector, k: int, version: str
    ) -> list[tuple[int, float]]:
        """Up to k (id, cosine similarity) among the latest examples of one scope, best first.

        For an end user's scope: among the nearest of the whole tenant, others who ask the same would hide them.
        """
        rows = self._db.read().execute(_LATEST_OF_SCOPE, (tenant, scope, version, _SCOPE_READ)).fetchall()
        found = [(id, float(from_blob(blob) @ vector)) for id, blob in rows]
        return sorted(found, key=lambda pair: -pair[1])[:k]

    def candidate_vectors(self, *, question_version: str, answer_version: str = "") -> CandidateVectors:
        """Reads the vectors of questions and answers together. Those of other versions are as good as none."""
        return CandidateVectors(self._db, question_version=question_version, answer_version=answer_version)

    def instructions(self, tenant: str, scope: str) -> str | None:
        """What router.digest.instructions said for this scope; None where it was not kept.

        Without its instructions an example cannot be asked again.
        """
        return example_rows.instructions_of(self._db.read(), tenant, scope)

    def depending_on(self, id: int) -> Depending:
        """What goes with an example when it is removed."""
        row = self._db.read().execute(_DEPENDING, {"id": id}).fetchone()
        return Depending(*row)

    def count(self, tenant: str | None = None) -> int:
        """How many examples there are, of one tenant or of all. Costs no scan."""
        if tenant is not None:
            return self.totals(tenant).examples
        row: tuple[int] = (
            self._db.read().execute("SELECT coalesce(sum(examples), 0) FROM example_totals").fetchone()
        )
        return row[0]

    def totals(self, tenant: str) -> Totals:
        """How many examples a tenant has, and their size. Costs no scan."""
        row = (
            self._db.read()
            .execute("SELECT examples, size_bytes FROM example_totals WHERE tenant = ?", (tenant,))
            .fetchone()
        )
        return Totals(*row) if row else Totals(0, 0)

    def tenants(self) -> dict[str, int]:
        """Every tenant that has examples, and how many. Costs no scan."""
        return dict(self._db.read().execute("SELECT tenant, examples FROM example_totals").fetchall())

    # ---- away

    def remove(self, tenant: str, ids: Sequence[int]) -> Future[int]:
        """Remove the tenant's examples with these ids, and what replay wrote as variations of them; gives how many.

        What would be given again of their answers goes, too: see rows.remove. Their text is overwritten in the file
        and, once the write-ahead log has been emptied, gone from there too: that is set off after the commit;
        `Database.scrub` waits for it.
        """
        wanted = sorted(set(ids))

        def delete(connection: Connection) -> int:
            found = example_rows.with_variations(connection, tenant, wanted)
            return example_rows.remove(connection, tenant, found, erase=True)

        return self.write_removal(delete)

    def expire(self, tenant: str, before_s: float, *, batch: int = 500) -> int:
        """Remove the tenant's examples of requests that were answered before `before_s`; gives how many. Blocks.

        Demonstrations, which somebody gave as right, stay. See `remove`.
        """
        total = 0
        while True:
            ids = [
                id
                for (id,) in self._db.read()
                .execute(
                    "SELECT examples.id FROM examples JOIN example_accounts ON example_accounts.id = examples.id"
                    " WHERE examples.tenant = ? AND examples.created_at_s < ? AND example_accounts.kind = 'observed'"
                    " ORDER BY examples.id LIMIT ?",
                    (tenant, before_s, batch),
                )
                .fetchall()
            ]
            if not ids:
                return total
            total += self.remove(tenant, ids).result(60)

    def remove_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """Remove every example of the tenant's whose texts came from a contributor; gives how many. See `remove`.

        Raises ValueError for an empty contributor, which would mean everybody unknown.
        """
        if not contributor:
            raise ValueError("an empty contributor is nobody: name one, or remove the tenant")
        return self._remove_where("tenant = ? AND contributor = ? AND contributor <> ''", tenant, contributor)

    def make_private(self, tenant: str) -> Future[int]:
        """Make a tenant private: its examples leave the bank and are put aside; gives how many.

        See store.examples.private_bank. One transaction: at no moment is a pair neither served nor put aside, or both.
        """
        return self.write_removal(
            lambda connection: example_rows.remove(
                connection, tenant, self.private.begin(connection, tenant), erase=True
            )
        )

    def remove_tenant(self, tenant: str) -> Future[int]:
        """Remove everything a tenant has here; gives how many examples that was. See `remove`."""
        return self._remove_where("tenant = ?", tenant)

    def _remove_where(self, condition: str, tenant: str, *values: str) -> Future[int]:
        def delete(connection: Connection) -> int:
            found = connection.execute(
                f"SELECT id FROM example_accounts WHERE {condition} ORDER BY id",  # noqa: S608 - our own constants
                (tenant, *values),
            ).fetchall()
            return example_rows.remove(connection, tenant, [id for (id,) in found], erase=True)

        return self.write_removal(delete)

    def write_removal(self, job: Callable[[Connection], int], *, scrub: bool = True) -> Future[int]:
        """Write a job that removes examples and gives how many; followers hear of it.

        `scrub` empties the write-ahead log afterwards, so that the text is in no file any more.
        """
        return self._write(job, self._scrub_and_tell if scrub else self._tell)

    def make_room(
        self, tenant: str, *, max_examples: int | None = None, max_bytes: int | None = None, batch: int = 500
    ) -> Evicted:
        """Evict the tenant's least useful examples until both caps hold: see store.examples.capacity. Blocks."""
        return make_room(self, tenant, max_examples=max_examples, max_bytes=max_bytes, batch=batch)

    def compact(self, *, keep_removals_s: float = 7 * 86_400.0) -> Compacted:
        """Drop what only old followers of the log could still want: see store.examples.capacity.compact. Blocks."""
        return compact(self._db, keep_removals_s=keep_removals_s)

    # ---- the log

    def tail(self, after_seq: int, limit: int = 1000, tenant: str | None = None) -> list[Change]:
        """The next changes in the log's order, at most `limit`; of one tenant, if it is named.

        An example stands at the place of its latest change, so what changed twice is met once. Old removals are
        dropped: see `dropped`.
        """
        if tenant is None:
            rows = self._db.read().execute(_TAIL, {"after": after_seq, "limit": limit})
        else:
            rows = self._db.read().execute(
                _TAIL_OF_TENANT, {"after": after_seq, "limit": limit, "tenant": tenant}
            )
        return [
            Change(
                seq, of, id, None if blob is None else from_blob(blob), bool(removed), version, bool(erase)
            )
            for seq, of, id, blob, removed, version, erase in rows.fetchall()
        ]

    def last_seq(self) -> int:
        """The last place given out in the log; 0 when it is empty."""
        row: tuple[int] = self._db.read().execute("SELECT last_seq FROM example_sequence").fetchone()
        return row[0]

    def followed(self, seq: int) -> None:
        """Say that the log was read up to this place: see `store.database.Database.followed`."""
        self._db.followed(seq)

    def database_id(self) -> str:
        """Which database this bank is in: what was derived from another one does not belong to it."""
        return self._db.database_id()

    def dropped(self, after_seq: int) -> dict[str, int]:
        """Tenants of whose removals some beyond `after_seq` are no longer in the log, and up to which place.

        Who has followed to `after_seq` only must read such a tenant anew from the beginning. To be asked after
        `tail`, never before: what is dropped in between then shows.
        """
        rows = self._db.read().execute(
            "SELECT tenant, up_to_seq FROM dropped_removals WHERE up_to_seq > ?", (after_seq,)
        )
        return dict(rows.fetchall())

    def without_vector(self, version: str, limit: int = 100, after_id: int = 0) -> list[Unembedded]:
        """Examples that have no vector of this embedding version, by id: what a background job has left to embed.

        Costs nothing when there are none, however large the bank.
        """
        connection = self._db.read()
        found: dict[int, Unembedded] = {}

        def take(condition: str, *values: Any) -> None:
            rows = connection.execute(
                f"SELECT id, tenant, embedded_text FROM examples WHERE {condition} AND id > ? ORDER BY id LIMIT ?",  # noqa: S608
                (*values, after_id, limit),
            )
            found.update({row[0]: Unembedded(*row) for row in rows.fetchall()})

        take("vector IS NULL")
        for (other,) in connection.execute(_VERSIONS).fetchall():
            if other is not None and other != version:
                take("embedding_version = ?", other)
        return [found[id] for id in sorted(found)[:limit]]

    # ---- accounts

    def note_use(self, ids: Sequence[int]) -> None:
        """Note that these examples were sent to an engine just now. Only counted here; `flush_uses` writes."""
        self.ledger.note_use(ids)

    def flush_uses(self) -> Future[None] | None:
        """Hand everything the ledger noted to the writer; None if there is nothing, else the last job's future.

        Call it now and then, and before closing.
        """
        written = self.ledger.flush()
        return written[-1] if written else None

    # ---- inside

    def _write(self, job: Callable[[Connection], T], after: Callable[[Any], None] | None = None) -> Future[T]:
        return self._db.write(example_rows.alone(self._db, job), after=after)

    def _admission(self, new: NewExample) -> Callable[[Connection], Admitted]:
        blob = None if new.vector is None else to_blob(new.vector)
        if new.quality is not None and not 0.0 <= new.quality <= 1.0:
            raise ValueError(f"a quality of {new.quality}: between 0 and 1 is right")
        now_s = time.time()
        return lambda connection: admit(connection, new, blob, now_s, self._twin_rule)

    def _tell(self, _: object) -> None:
        for listener in self._listeners:
            listener()

    def _purge_words(self, changed: Example | None) -> None:
        if changed is not None:
            # What was taken out of a text must not stay among the words.
            self._db.words.purge_soon("example_words")

    def _scrub_and_tell(self, removed: int) -> None:
        self._tell(removed)
        if removed:
            self._db.words.purge_soon("example_words")


def _give_back(connection: Connection, id: int, row: Restored) -> None:
    if row.created_at_s is not None:
        connection.execute("UPDATE examples SET created_at_s = ? WHERE id = ?", (row.created_at_s, id))
        connection.execute("UPDATE example_accounts SET seen_at_s = ? WHERE id = ?", (row.created_at_s, id))
    if row.account is not None:
        connection.execute(
            "UPDATE example_accounts SET flagged = ?, merged = ?, uses = ?, last_used_at_s = ?, used = ?, used_at_s = ?,"
            " gain = ?, gain_at_s = ?, quality_sum = ?, quality_count = ? WHERE id = ?",
            (*astuple(row.account), id),
        )
    if row.created_at_s is not None or row.account is not None:
        example_rows.refresh_worth(connection, id)


_EXPORTED_AT_ONCE = 500
_EXPORTED = "SELECT id, embedded_text, vector FROM examples WHERE +tenant = ? AND id > ? ORDER BY id LIMIT ?"
_LATEST_OF_SCOPE = (
    "SELECT id, vector FROM examples WHERE tenant = ? AND scope = ? AND embedding_version = ? AND vector IS NOT NULL"
    " ORDER BY id DESC LIMIT ?"
)
# The plus keeps SQLite from walking all of the tenant's rows to find a handful by their ids.
_VECTORS_OF = (
    "SELECT id, vector FROM examples WHERE id IN (SELECT CAST(value AS INTEGER) FROM json_each(?)) AND +tenant = ?"
    " AND embedding_version = ? AND vector IS NOT NULL"
)
_DEPENDING = (
    "SELECT (SELECT count(*) FROM merged_requests WHERE example_id = :id),"
    " (SELECT count(*) FROM semantic_entries WHERE example_id = :id)"
)
# Walks from one version to the next by the index, where DISTINCT would read every entry.
_VERSIONS = (
    "WITH RECURSIVE versions (version) AS ("
    "SELECT min(embedding_version) FROM examples UNION ALL"
    " SELECT (SELECT min(embedding_version) FROM examples WHERE embedding_version > version) FROM versions"
    " WHERE version IS NOT NULL) SELECT version FROM versions"
)
_TAIL = (
    "SELECT * FROM (SELECT seq, tenant, id, vector, 0, embedding_version, 0 FROM examples"
    " WHERE seq > :after ORDER BY seq LIMIT :limit)"
    " UNION ALL "
    "SELECT * FROM (SELECT seq, tenant, example_id, CAST(NULL AS BLOB), 1, '', erase FROM removed_examples"
    " WHERE seq > :after ORDER BY seq LIMIT :limit)"
    " ORDER BY 1 LIMIT :limit"
)
_TAIL_OF_TENANT = (
    "SELECT * FROM (SELECT seq, tenant, id, vector, 0, embedding_version, 0 FROM examples"
    " WHERE tenant = :tenant AND seq > :after ORDER BY seq LIMIT :limit)"
    " UNION ALL "
    "SELECT * FROM (SELECT seq, tenant, example_id, CAST(NULL AS BLOB), 1, '', erase FROM removed_examples"
    " WHERE tenant = :tenant AND seq > :after ORDER BY seq LIMIT :limit)"
    " ORDER BY 1 LIMIT :limit"
)
