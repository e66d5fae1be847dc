"""The log of requests: what was decided, with what probability, and what came of it. Judges nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from store.database import Connection, Database
from store.decisions.all_sums import sums_of_tenant_forgotten, take_off_sums
from store.decisions.rollups import add_uncounted, requests_deleted
from store.decisions.usage import Bounds, Used, add_usage, usage_of
from store.inserting import Insert
from store.plain import plain
from store.records import TEXT_OF_KEY, RequestRecord
from store.tenant_scope import ALL, TenantScope
from store.written_together import write_each

HOUR_S = 3600
_DAY_S = 24 * HOUR_S


@dataclass(frozen=True, slots=True)
class HourLoad:
    """One hour that had requests."""

    hour: int
    """Hours since the epoch."""
    requests: int
    busy_s: float
    """Sum of the durations of the requests that began in it; over 3600 it is how many were in flight on average."""


class Timing(NamedTuple):
    """How long one answer took."""

    at_s: float
    """When its request began, Unix seconds."""
    total_ms: float
    first_chunk_ms: float | None
    """None where nothing was streamed."""


class RequestLog:
    """Records requests, one row each, and reads them: by id, by time, by engine, by hour."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._bounds = Bounds()

    def record(self, *records: RequestRecord) -> Future[None]:
        """Write a row for each, and add them to the books; a second one with the same id is ignored. Raises StoreBusy."""
        wanted = [(_row(record), self._bounds.kept(usage_of(record))) for record in records]

        def insert(connection: Connection, row: Sequence[object], used: Used) -> None:
            add_usage(self._db, connection, used, only_if=self._db.append(connection, _INSERT, row))

        return write_each(self._db, insert, wanted)

    def get(self, id: str, tenant: str | None = None) -> RequestRecord | None:
        """The request with this id, or None; also None if a tenant is named and it is another's."""
        row = self._db.read().execute(_SELECT + " WHERE id = ?", (id,)).fetchone()
        if row is None or (tenant is not None and row[1] != tenant):
            return None
        return as_record(row)

    def by_completion(self, tenant: str, completion_id: str) -> RequestRecord | None:
        """The tenant's request whose answer has this `id`: the latest answer, before its repeats; None for none."""
        where = " WHERE completion_id = ? AND completion_id <> '' AND tenant = ?"
        order = " ORDER BY outcome IN ('answered', 'aborted') DESC, started_at_s DESC LIMIT 1"
        row = self._db.read().execute(_SELECT + where + order, (completion_id, tenant)).fetchone()
        return None if row is None else as_record(row)

    def answered_in(self, tenant: str, session: str, since_s: float, limit: int = 1000) -> list[str]:
        """The ids of the latest requests of a tenant's conversation, `session` its digest, that engines answered since
        `since_s`, newest first."""
        rows = self._db.read().execute(
            "SELECT id FROM requests WHERE session = ? AND session <> '' AND tenant = ? AND started_at_s >= ?"
            " AND outcome IN ('answered', 'aborted') AND engine <> '' ORDER BY started_at_s DESC LIMIT ?",
            (session, tenant, since_s, limit),
        )
        return [id for (id,) in rows.fetchall()]

    def recent(self, limit: int = 100, tenant: str | None = None) -> list[RequestRecord]:
        """The latest requests, newest first."""
        where, of = ("", ()) if tenant is None else (" WHERE tenant = ?", (tenant,))
        query = _SELECT + where + " ORDER BY started_at_s DESC, row_id DESC LIMIT ?"
        return [as_record(row) for row in self._db.read().execute(query, (*of, limit)).fetchall()]

    def uses_of_examples(
        self, engine: str, *, since_s: float, limit: int
    ) -> list[tuple[str, float, tuple[int, ...]]]:
        """(tenant, when it began, ids of the examples in the order sent) of the latest requests that carried any."""
        rows = self._db.read().execute(
            "SELECT tenant, started_at_s, example_ids FROM requests WHERE started_at_s >= ? AND engine = ?"
            " AND example_count > 0 ORDER BY started_at_s DESC LIMIT ?",
            (since_s, engine, limit),
        )
        return [(tenant, at_s, tuple(json.loads(ids))) for tenant, at_s, ids in rows.fetchall()]

    def hourly_load(self, *, since_s: float, until_s: float) -> list[HourLoad]:
        """The hours of [since_s, until_s) that had requests, in order; both are rounded down to whole hours.

        Reads a day at a time: a long read would hold up the write-ahead log's checkpoints.
        """
        begin, end = int(since_s // HOUR_S) * HOUR_S, int(until_s // HOUR_S) * HOUR_S
        found: list[HourLoad] = []
        for day in range(begin, end, _DAY_S):
            rows = (
                self._db.read()
                .execute(
                    "SELECT CAST(started_at_s AS INTEGER) / 3600, count(*), sum(total_ms) FROM requests"
                    " WHERE started_at_s >= ? AND started_at_s < ? GROUP BY 1 ORDER BY 1",
                    (day, min(day + _DAY_S, end)),
                )
                .fetchall()
            )
            found += [HourLoad(hour, count, total_ms / 1000) for hour, count, total_ms in rows]
        return found

    def first_request_s(self) -> float | None:
        """When the oldest request on record began (seconds since the epoch); None without any."""
        row = self._db.read().execute("SELECT min(started_at_s) FROM requests").fetchone()
        return None if row[0] is None else float(row[0])

    def begun(self, since_s: float, tenant: str | None = None) -> int:
        """How many requests on record began at that time or later; of one tenant if named. Reads an index only.

        A request is on record when it has ended: those that still go on are missing.
        """
        of_tenant, values = ("", ()) if tenant is None else (" AND tenant = ?", (tenant,))
        row = self._db.read().execute(
            f"SELECT count(*) FROM requests WHERE started_at_s >= ?{of_tenant}",  # noqa: S608 - constants
            (since_s, *values),
        )
        return int(row.fetchone()[0])

    def timings(
        self,
        since_s: float,
        until_s: float,
        *,
        tenant: str | None = None,
        key_id: str | None = None,
        model: str | None = None,
        looked: int = 20_000,
        limit: int = 5_000,
    ) -> list[Timing]:
        """The latest answers that began in [since_s, until_s), at most `limit`; of one tenant, key or model if named.

        Looks through `looked` requests of the time, or of the tenant's, at most.
        """
        of_tenant = "" if tenant is None else " AND tenant = :tenant"
        rows = self._db.read().execute(
            "SELECT started_at_s, total_ms, first_chunk_ms FROM (SELECT * FROM requests WHERE started_at_s >= :since"  # noqa: S608
            f" AND started_at_s < :until{of_tenant} ORDER BY started_at_s DESC LIMIT :looked) AS latest"
            " WHERE outcome IN ('answered', 'hit') AND (:key IS NULL OR key_id = :key)"
            " AND (:model IS NULL OR model = :model) LIMIT :limit",
            {
                "since": since_s,
                "until": until_s,
                "tenant": tenant,
                "key": key_id,
                "model": model,
                "looked": looked,
                "limit": limit,
            },
        )
        return [Timing(*row) for row in rows.fetchall()]

    def latest_reasons(self, model: str, *, since_s: float, limit: int) -> list[tuple[float, str]]:
        """(when it began, why) of the latest requests for a served model that were no exact hits, newest first.

        Looks through four times `limit` requests of all models at most.
        """
        rows = self._db.read().execute(
            LATEST_REASONS, {"model": model, "since": since_s, "looked": 4 * limit, "limit": limit}
        )
        return rows.fetchall()

    def trim(self, before_s: float, limit: int = 10_000, *, tenants: TenantScope = ALL) -> Future[int]:
        """Delete requests of these tenants that started before `before_s`, the oldest first; gives how many.

        At most `limit` at once, so that the writer stays free for others: call again while it gives `limit`.
        """

        def delete(connection: Connection) -> int:
            gone = connection.execute(
                "DELETE FROM requests WHERE row_id IN (SELECT row_id FROM requests WHERE started_at_s < ?"  # noqa: S608
                f"{tenants.condition} ORDER BY started_at_s LIMIT ?)",
                (before_s, *tenants.values, limit),
            ).rowcount
            if gone:
                requests_deleted(connection)
            return gone

        return self._db.write(delete)

    def forget_key(self, tenant: str, key_id: str) -> Future[int]:
        """Take a key's id off the rows of the requests that came by it; gives how many. They stay, as nobody's."""

        def blank(connection: Connection) -> int:
            requests_deleted(connection)
            take_off_sums(self._db, connection, tenant, "key_id", key_id)
            return connection.execute(
                "UPDATE requests SET key_id = ''"  # noqa: S608 - a constant
                f"{_ALSO_BLANKED} WHERE tenant = ? AND key_id = ? AND key_id <> ''",
                (tenant, key_id),
            ).rowcount

        return self._db.write(blank)

    def forget_user(self, tenant: str, end_user: str) -> Future[int]:
        """Take an end user's digest off the rows, and delete their own sums; gives how many rows. They stay, as nobody's."""

        def blank(connection: Connection) -> int:
            take_off_sums(self._db, connection, tenant, "end_user", end_user)
            return connection.execute(
                "UPDATE requests SET end_user = ''"  # noqa: S608 - a constant
                f"{_ALSO_BLANKED} WHERE tenant = ? AND end_user = ? AND end_user <> ''",
                (tenant, end_user),
            ).rowcount

        return self._db.write(blank)

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete everything logged about a tenant; gives how many requests that was.

        The sums stay, as those of deleted tenants together (store.sums.DELETED), with what others kept of
        its costs: to be asked last of all that forget it.
        """

        def delete(connection: Connection) -> int:
            add_uncounted(connection, tenant)
            sums_of_tenant_forgotten(self._db, connection, tenant)
            gone = connection.execute("DELETE FROM requests WHERE tenant = ?", (tenant,)).rowcount
            requests_deleted(connection)
            return gone

        return self._db.write(delete)


LATEST_REASONS = (
    "SELECT started_at_s, reason FROM (SELECT started_at_s, reason, model, outcome FROM requests"
    " WHERE started_at_s >= :since ORDER BY started_at_s DESC LIMIT :looked)"
    " WHERE model = :model AND outcome <> 'hit' LIMIT :limit"
)
COLUMNS = (
    "id, tenant, started_at_s, endpoint, model, engine, outcome, status, policy, policy_version, probability, reason,"
    " example_count, example_ids, prompt_tokens, completion_tokens, usage_estimated, cost_usd, total_ms,"
    " first_chunk_ms, overhead_ms, stages_ms, key_id, cached_tokens, continued, reference_cost_usd, exact_key,"
    " failed_over, trail, unpriced, api, end_user, cache_write_tokens, images, service_tier, examples_usd, example_tokens,"
    " completion_id, session, error_kind, finish_reason, no_text, run, step"
)
_COST, _UNPRICED = (COLUMNS.split(", ").index(name) for name in ("cost_usd", "unpriced"))
# Trails of former releases hold words of an upstream. What somebody else asked under the same key stays theirs.
_ALSO_BLANKED = (
    """, session = '', trail = CASE WHEN instr(trail, '],"error":"') > 0 THEN '' ELSE trail END"""
    f", no_text = CASE WHEN no_text = '{TEXT_OF_KEY}' THEN 'forgotten' ELSE no_text END"
)
_SELECT = f"SELECT {COLUMNS} FROM requests"  # noqa: S608 - a constant
_INSERT = Insert("requests", COLUMNS, key="id")


def _row(record: RequestRecord) -> tuple[object, ...]:
    return (
        record.id,
        record.tenant,
        record.started_at_s,
        record.endpoint,
        plain(record.model),
        record.engine,
        record.outcome,
        record.status,
        record.policy,
        record.policy_version,
        record.probability,
        record.reason,
        len(record.example_ids),
        json.dumps(record.example_ids) if record.example_ids else "[]",
        record.prompt_tokens,
        record.completion_tokens,
        record.usage_estimated,
        record.cost_usd or 0.0,
        record.total_ms,
        record.first_chunk_ms,
        record.overhead_ms,
        record.stages_ms,
        record.key_id,
        record.cached_tokens,
        record.continued,
        record.reference_cost_usd,
        record.exact_key,
        record.failed_over,
        record.trail,
        record.cost_usd is None,
        record.api,
        record.end_user,
        record.cache_write_tokens,
        record.images,
        record.service_tier,
        record.examples_usd,
        record.example_tokens,
        plain(record.completion_id),
        record.session,
        plain(record.error_kind),
        plain(record.finish_reason),
        record.no_text,
        record.run,
        record.step,
    )


def as_record(row: Sequence[object]) -> RequestRecord:
    """A row of `COLUMNS`, as a value."""
    values = list(row)
    values[13] = tuple(json.loads(str(values[13])))
    values[16] = bool(values[16])
    if values.pop(_UNPRICED):
        values[_COST] = None
    del values[12]
    return RequestRecord(*values)  # type: ignore[arg-type]
