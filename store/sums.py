"""Sums over spans of time: declared once, added to, read, kept and forgotten by the same lines. They hold no content.

Every table of sums has the columns `span_s` and `start_s`, those that key a sum, and those that are added up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from store.database import COMMITTED_WITHIN_S, Connection, Database
from store.inserting import adding
from store.tables import TABLES

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
KEPT_FOR_PAGES = {MINUTE_S: 3 * HOUR_S, HOUR_S: 40 * DAY_S, DAY_S: 400 * DAY_S}
"""For how many seconds sums of a span are kept that pages show: minutes for hours, hours for weeks, days for a year."""
DELETED = "deleted"
"""The tenant under whom the sums of all deleted tenants stay, without keys and end users. Nobody's id is like it."""
EVER_S = 10**11
"""Later than any time that is booked, Unix seconds."""

Added = Mapping[tuple[Any, ...], Sequence[float]]
"""Amounts by (span_s, start_s, keys …)."""
Log = Literal["requests", "outcomes"]


class Sums:
    """One table of sums. Its names, and expressions of them, become SQL: they are constants of the product."""

    def __init__(
        self,
        table: str,
        keys: tuple[str, ...],
        amounts: tuple[str, ...],
        spans: Mapping[int, int],
        *,
        tenant_gone: Mapping[str, str] | None = None,
    ) -> None:
        """`spans`: for how many seconds the sums of each span are kept, by its length in seconds.

        `tenant_gone`: SQL of what stands instead in other columns when sums become those of deleted tenants.
        """
        self.table = table
        self.keys = ("span_s", "start_s", *keys)
        self.amounts = amounts
        self.spans = spans
        self.tenant_gone = tenant_gone or {}
        self.insert = adding(table, ", ".join(self.keys), ", ".join(amounts))
        """Adds amounts to one sum: of `Database.add`, whose key is the span, its start and the keys."""

    def add(self, connection: Connection, added: Added) -> None:
        """Add to many sums, in the order of keys: other processes may add to the same rows."""
        connection.executemany(self.insert.sql, [(*key, *amounts) for key, amounts in sorted(added.items())])

    def read(
        self,
        connection: Connection,
        by: Sequence[str],
        span_s: int,
        since_s: float = 0.0,
        until_s: float = EVER_S,
        *,
        amounts: Sequence[str] = (),
        **only: str | None,
    ) -> list[tuple[Any, ...]]:
        """Rows of `by` and sums over [since_s, until_s), in the order of `by`: columns, or SQL of them.

        The times are rounded down to whole spans' starts by the caller. `amounts`: all where none is named; `only`: what
        columns must be, where that is not None.
        """
        of, values = _conditions(only)
        places = ", ".join(str(place + 1) for place in range(len(by)))
        summed = ", ".join(f"sum({name})" for name in amounts or self.amounts)
        rows = connection.execute(
            f"SELECT {', '.join(by)}, {summed} FROM {self.table} WHERE span_s = :span AND start_s >= :since"  # noqa: S608
            f" AND start_s < :until{of} GROUP BY {places} ORDER BY {places}",
            {"span": span_s, "since": int(since_s), "until": int(until_s), **values},
        )
        return rows.fetchall()

    def move(self, connection: Connection, only: Mapping[str, str], into: Mapping[str, str]) -> None:
        """Add what stands under the keys `only` to what stands where columns are `into` instead (SQL) inside a job."""
        of, values = _conditions(only)
        moved = [into.get(name, name) for name in self.keys]
        places = ", ".join(str(place + 1) for place in range(len(moved)))
        summed = ", ".join(f"sum({name})" for name in self.amounts)
        connection.execute(
            f"{self.insert.into} SELECT {', '.join(moved)}, {summed} FROM {self.table}"  # noqa: S608
            f" WHERE span_s > 0{of} GROUP BY {places} ORDER BY {places}{self.insert.on_conflict}",
            values,
        )
        connection.execute(f"DELETE FROM {self.table} WHERE span_s > 0{of}", values)  # noqa: S608 - constants

    def take_off(self, connection: Connection, tenant: str, column: str, name: str) -> None:
        """Add what a tenant has under a key or an end user to what it has under none, inside a job."""
        if name and column in self.keys:
            self.move(connection, {"tenant": tenant, column: name}, {column: "''"})

    def forget_tenant(self, connection: Connection, tenant: str) -> None:
        """Delete a tenant's sums inside a job, or have them be those of deleted tenants, as store.tables says."""
        if "tenant" not in self.keys:
            return
        if TABLES[self.table].outlives:
            self.move(connection, {"tenant": tenant}, {"tenant": f"'{DELETED}'"} | dict(self.tenant_gone))
        else:
            connection.execute(f"DELETE FROM {self.table} WHERE tenant = ?", (tenant,))  # noqa: S608 - constants

    def trim(self, connection: Connection, now_s: float) -> int:
        """Drop what is older than its span is kept, inside a job; gives how many rows."""
        statement = f"DELETE FROM {self.table} WHERE span_s = ? AND start_s < ?"  # noqa: S608 - constants
        return sum(
            connection.execute(statement, (span_s, int(now_s - kept_s))).rowcount
            for span_s, kept_s in self.spans.items()
        )


def _conditions(only: Mapping[str, str | None]) -> tuple[str, dict[str, str]]:
    values = {name: value for name, value in only.items() if value is not None}
    of = "".join(f" AND {name} = :{name}" for name in values)
    # Said so that an index of those with an end user serves.
    return (f"{of} AND end_user <> ''" if values.get("end_user") else of), values


def by_span(spans: Iterable[int], at_s: float) -> list[tuple[int, int]]:
    """(length, start) of the spans in which a time lies, in seconds."""
    return [(span_s, int(at_s) // span_s * span_s) for span_s in spans]


class Batch:
    """Sums of a batch, added up in memory until they are written."""

    def __init__(self) -> None:
        self._found: dict[Sums, defaultdict[tuple[Any, ...], list[float]]] = {}

    def add(self, sums: Sums, key: tuple[Any, ...], amounts: Sequence[float]) -> None:
        """Add to one sum: `key` has the span, its start and the keys."""
        found = self._found.setdefault(sums, defaultdict(lambda: [0] * len(sums.amounts)))[key]
        for place, amount in enumerate(amounts):
            found[place] += amount

    def write(self, connection: Connection) -> None:
        """Add everything to the tables."""
        for sums, found in self._found.items():
            sums.add(connection, found)


class LogInSums:
    """Keeps sums up with a log, in its readers' own time: a request pays nothing for them.

    Safe in several processes: of two that add the same rows one does, and none adds what was read before rows were deleted
    or changed on purpose (`log_changed`).
    """

    def __init__(
        self,
        db: Database,
        log: Log,
        rows: str,
        summed: Callable[[Batch, Sequence[Any]], None],
    ) -> None:
        """`rows`: SQL of rows by id, the first column: beyond the first `?`, up to the second, and at most the third.

        `summed` adds one of them to the batch.
        """
        self._db = db
        self._log: Log = log
        self._rows = rows
        self._summed = summed

    def catch_up(self, most: int) -> int:
        """Add at most so many rows that are not in the sums yet; gives how many were looked at. Blocks for milliseconds.

        Raises what writing raises.
        """
        settled = self._db.settled(self._log)
        last, changes = last_summed(self._db.read(), self._log)
        rows = self._db.read().execute(self._rows, (last, settled, most)).fetchall()
        if not rows:
            return 0
        batch = Batch()
        for row in rows:
            self._summed(batch, row)

        def write(connection: Connection) -> int:
            moved = connection.execute(
                "UPDATE sums_progress SET last_id = ? WHERE log = ? AND last_id = ? AND changes = ?",
                (rows[-1][0], self._log, last, changes),
            ).rowcount
            if moved:
                batch.write(connection)
            return len(rows) if moved else 0

        return self._db.write(write).result(COMMITTED_WITHIN_S)


def last_summed(connection: Connection, log: Log) -> tuple[int, int]:
    """(the last row's id that is in the sums, how often rows were changed on purpose)."""
    found = connection.execute("SELECT last_id, changes FROM sums_progress WHERE log = ?", (log,)).fetchone()
    return found[0], found[1]


def log_changed(connection: Connection, log: Log) -> None:
    """Say, inside the job that deletes rows of a log or changes whose they are, that what was read before is void."""
    connection.execute("UPDATE sums_progress SET changes = changes + 1 WHERE log = ?", (log,))
