"""What the store's nouns ask of a database, whichever it is: SQLite's file (store.sqlite) or PostgreSQL (store.postgres).

The SQL stands once, in each noun's file, in the subset that both read. docs/explanation/storage.md says what belongs to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeVar

from store.inserting import Insert
from store.reading import Reads

T = TypeVar("T")

COMMITTED_WITHIN_S = 30.0
"""For how long whoever waits for a commit does so."""


class Rows(Protocol):
    """What a statement gave. Numbers are int or float, texts str, bytes bytes; a bool goes in and comes out as 0 or 1."""

    @property
    def rowcount(self) -> int:
        """How many rows were inserted, changed or deleted."""
        ...

    def fetchone(self) -> Any:
        """The next row; None when there is none left."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """Runs statements. Parameters: `?`, `?1` with a sequence, `:name` with a mapping."""

    def execute(self, sql: str, parameters: Any = ..., /) -> Rows:
        """Run one statement. Raises StoreFailed where it reads (`Database.read`); in a write job the writer translates."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Rows:
        """Run one statement for each of many parameters; `rowcount` is of all of them."""
        ...


WordsTable = Literal["request_words", "example_words"]


class Words(Protocol):
    """Search of texts by their words: of examples, and of requests' questions and answers. Case and accents do not count.

    What a person typed is `text`: all its words, the last one also as a beginning; a "quoted" part as it stands.
    """

    def examples(self, tenant: str, text: str, limit: int) -> list[int]:
        """Ids of a tenant's examples with these words in question or answer, the best matches first."""
        ...

    def questions(
        self, tenant: str, scope: str, said: Sequence[str], limit: int, within_s: float
    ) -> list[tuple[int, float]]:
        """Up to `limit` (id, BM25) of a scope's examples whose questions have any of these words, the best first.

        `said`: in lower case, without accents; the rarest are looked for. None are found where it takes over `within_s`.
        """
        ...

    def requests(self, text: str, before: int, limit: int) -> list[tuple[int, str]]:
        """(row id, request id) of requests with these words, the latest first, of rows below `before`."""
        ...

    def purge_soon(self, table: WordsTable) -> None:
        """Get deleted rows' words out of an index, after what waits already. Never waits, and raises nothing."""
        ...

    def purge(self, timeout_s: float) -> None:
        """Have it done in all indexes. Waits. Raises what writing raises."""
        ...


class Database(Protocol):
    """One database, open. Safe to use from any thread."""

    @property
    def words(self) -> Words:
        """Search by words."""
        ...

    @property
    def pending(self) -> int:
        """Jobs handed over whose fate is not yet known."""
        ...

    @property
    def problem(self) -> str:
        """What keeps this process from writing; empty when nothing is known to."""
        ...

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        ...

    @property
    def reads(self) -> Reads:
        """How an event loop reads of it."""
        ...

    def write(
        self,
        job: Callable[[Connection], T],
        *,
        after: Callable[[T], None] | None = None,
        patient: bool = False,
        spare: bool = False,
        rows: int = 1,
    ) -> Future[T]:
        """Run `job` on the writer's thread; the future resolves after the COMMIT, so a result is a promise kept.

        A job that raises is undone alone and its exception is the future's. A job may be run again when a batch had to be
        given up, so it must have no effect but the one on the connection. It must not end the transaction, and must not
        go on after an error of a statement. `after` is called with the result, on the writer's thread, after the commit
        and before the future resolves. `patient`: nobody waits for it, so it may wait a twentieth of a second for others,
        and for a database that is away; what is not patient fails then at once with StoreFailed. `spare`: dropped with
        StoreBusy before others where there is no room, for which it counts as `rows` jobs.

        Raises StoreBusy when too many jobs wait already, StoreClosed after `close`. Never waits.
        """
        ...

    def joined(self) -> AbstractContextManager[None]:
        """What the block writes is one job: see store.writing.WritingThread.joined."""
        ...

    def read(self) -> Connection:
        """What this thread may read with, each statement for itself. Fetch all rows at once.

        Raises StoreClosed after `close`.
        """
        ...

    def last_id(self, table: Literal["outcomes", "task_answers"]) -> int:
        """The id of the last row that ever was in a table, kept or not, as far as it is settled; 0 where none was."""
        ...

    def settled(self, table: Literal["requests", "choices", "outcomes", "task_answers"]) -> int:
        """An id: no row up to it will be added any more. Whoever follows a table reads no further, and misses nothing.

        To be asked before the rows are read. Costs two reads where ids are not given out in the order of commits.
        """
        ...

    def missing(self) -> str | None:
        """What of the database is gone; None where it is there, as far as can be told at once."""
        ...

    def data_version(self) -> bytes | int:
        """A value that differs from the last one seen whenever anyone, in any process, may have committed since.

        Costs a microsecond, and means nothing outside this object.
        """
        ...

    def counter(self, name: str) -> int:
        """A row of the table `generations`, as `Generation` reads it. Raises what reading raises."""
        ...

    def bump(self, connection: Connection, name: str) -> None:
        """Move such a counter, inside a write job."""
        ...

    def locking(self, how: Literal["share", "skip"]) -> str:
        """What stands at the end of a SELECT in a write job, where several may write at the same time.

        share: until the transaction ends nobody changes these rows. skip: nor reads them like this; those that another one
        holds are left out.
        """
        ...

    def tell(self, connection: Connection) -> None:
        """Inside a write job: have other processes hear of its commit at once, where they would not by themselves."""
        ...

    def hold(self, connection: Connection, name: str) -> None:
        """Inside a write job: until it is committed no other process is in a job that holds the same.

        For jobs that read, and write by what they read. Nothing in SQLite, where only one process writes at a time.
        """
        ...

    def add(
        self,
        connection: Connection,
        insert: Insert,
        key: tuple[str | int, ...],
        amounts: Sequence[float],
        only_if: Rows | None = None,
    ) -> None:
        """Inside a write job: add to sums, by an Insert whose columns are those of `key` and of `amounts`.

        `only_if`: where this changed a row. PostgreSQL does it before the commit, for all jobs together and in the order of
        keys, so that processes that add to the same rows never wait for each other in a circle.
        """
        ...

    def append(self, connection: Connection, insert: Insert, row: Sequence[Any]) -> Rows:
        """Inside a write job: insert a row.

        PostgreSQL does it with those of other jobs, at the latest before the next statement of any other kind. `rowcount`,
        which tells whether the row was new, may be looked at by `add` only.
        """
        ...

    def settle(self, connection: Connection) -> None:
        """Inside a write job that reads or deletes such sums: have done what earlier jobs added."""
        ...

    def on_news(self, told: Callable[[], None]) -> None:
        """Call `told`, on another thread, whenever other processes may have committed; never where nobody tells."""
        ...

    def on_lost(self, told: Callable[[], None]) -> None:
        """Call `told`, on another thread, when commits that were seen are gone, as after a failover or a restore.

        What was derived from the rows has to be read anew then.
        """
        ...

    def followed(self, seq: int) -> None:
        """Say that the log of examples was read up to this place: a shorter log is one that lost commits, see `on_lost`."""
        ...

    def database_id(self) -> str:
        """32 hex characters drawn when the database was made."""
        ...

    def scrub(self) -> Future[bool]:
        """Overwrite what was deleted, as far as this is done without writing all anew. True when done; False: ask again."""
        ...

    def scrub_soon(self) -> None:
        """Have `scrub` done after what waits already; many calls make one."""
        ...

    def erase(self) -> Future[bool]:
        """Leave nothing of what was deleted. True when nothing is left; False where that is not in this process's power."""
        ...

    def sync(self) -> None:
        """Make everything committed survive a power cut. Blocks for as long as the disk takes. Raises OSError."""
        ...

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything handed over is written; False if `timeout_s` seconds did not suffice."""
        ...

    def close(self, timeout_s: float = 10.0) -> bool:
        """Write what waits, then close. True if everything was written within `timeout_s` seconds."""
        ...
