"""Sums over requests by minute, hour and day: what pages over a day or a week are made from, whatever the log's length.

Derived from the log by whoever shows it (`catch_up`), in its own time: a request pays nothing for it. Holds no content.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import orjson

from store.database import Connection, Database

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
_KEPT_S = {MINUTE_S: 3 * HOUR_S, HOUR_S: 40 * DAY_S, DAY_S: 400 * DAY_S}
_BATCH = 5_000
_STEPS_PER_DOUBLING = 8
_TABLES = ("request_rollups", "stage_rollups", "latency_rollups")
DELETED = "deleted"
"""The tenant under whom the sums of all deleted tenants stay, without keys and end users. Nobody's id is like it."""


class RequestRollups:
    """Keeps the sums up with the log, and reads them."""

    def __init__(self, db: Database, models: Iterable[str] = (), timeout_s: float = 30.0) -> None:
        """`models`: names that have rows of their own; any other, which a client may have made up, shares one."""
        self._db = db
        self._models = frozenset(models)
        self._timeout_s = timeout_s

    def catch_up(self, most: int = _BATCH) -> int:
        """Add at most so many requests that are not in the sums yet; gives how many. Blocks for some milliseconds.

        Safe in several processes: of two that add the same requests one does. Raises what writing raises.
        """
        read = self._db.read()
        last, deletions = read.execute("SELECT last_row_id, deletions FROM rollup_progress").fetchone()
        rows = read.execute(_NEXT, (last, self._db.settled("requests"), most)).fetchall()
        if not rows:
            return 0
        sums = _Sums(self._models)
        for row in rows:
            sums.add(row)

        def write(connection: Connection) -> int:
            moved = connection.execute(
                "UPDATE rollup_progress SET last_row_id = ? WHERE last_row_id = ? AND deletions = ?",
                (rows[-1][0], last, deletions),
            ).rowcount
            if moved:
                sums.write(connection)
            return len(rows) if moved else 0

        return self._db.write(write).result(self._timeout_s)

    def behind(self) -> int:
        """About how many requests are not in the sums yet."""
        row = (
            self._db.read()
            .execute(
                "SELECT coalesce((SELECT max(row_id) FROM requests), 0) - last_row_id FROM rollup_progress"
            )
            .fetchone()
        )
        return max(0, int(row[0]))

    def first_s(self) -> int | None:
        """The minute of the first request in the sums, or its hour where minutes are not kept so long, Unix seconds.

        None where there is none.
        """
        row: tuple[int | None, int | None] = (
            self._db.read()
            .execute(
                "SELECT (SELECT min(start_s) FROM request_rollups WHERE span_s = ?),"
                " (SELECT min(start_s) FROM request_rollups WHERE span_s = ?)",
                (HOUR_S, MINUTE_S),
            )
            .fetchone()
        )
        hour, minute = row
        return minute if minute is not None and minute - HOUR_S < (hour or 0) else hour

    def trim(self, now_s: float) -> Future[int]:
        """Drop minutes after some hours, hours after some weeks, days after a year; gives how many rows."""

        def delete(connection: Connection) -> int:
            gone = 0
            for span_s, kept_s in _KEPT_S.items():
                for table in _TABLES:
                    gone += connection.execute(
                        f"DELETE FROM {table} WHERE span_s = ? AND start_s < ?",  # noqa: S608 - a constant
                        (span_s, int(now_s - kept_s)),
                    ).rowcount
            gone += connection.execute(
                "DELETE FROM key_rollups WHERE start_s < ?", (int(now_s - _KEPT_S[HOUR_S]),)
            ).rowcount
            return gone

        return self._db.write(delete)

    def requests(
        self,
        span_s: int,
        since_s: float,
        tenant: str | None = None,
        *,
        by_time: bool = True,
        until_s: float = 1e11,
        model: str | None = None,
    ) -> list[RequestSums]:
        """Sums of [since_s, until_s), by start, model, engine, outcome and whether with examples; of one tenant or served
        model if named."""
        start = "start_s" if by_time else "0"
        rows = self._db.read().execute(
            f"SELECT {start}, model, engine, outcome, with_examples, {_SUMMED} FROM request_rollups"  # noqa: S608
            f" WHERE span_s = :span AND start_s >= :since AND start_s < :until {_OF_TENANT}"
            " AND (:model IS NULL OR model = :model) GROUP BY 1, 2, 3, 4, 5 ORDER BY 1",
            {
                "span": span_s,
                "since": int(since_s),
                "until": int(until_s),
                "tenant": tenant,
                "model": model,
            },
        )
        return [RequestSums(*row) for row in rows.fetchall()]

    def of_tenant(self, tenant: str, since_s: float, now_s: float) -> list[RequestSums]:
        """One tenant's sums of whole days, not by time. Takes no longer where there are many tenants."""
        days = list(range(int(since_s) // DAY_S * DAY_S, int(now_s) + 1, DAY_S))
        rows = self._db.read().execute(
            f"SELECT 0, model, engine, outcome, with_examples, {_SUMMED} FROM request_rollups"  # noqa: S608
            " WHERE span_s = ? AND start_s IN (SELECT CAST(value AS INTEGER) FROM json_each(?)) AND tenant = ?"
            " GROUP BY model, engine, outcome, with_examples ORDER BY model, engine, outcome, with_examples",
            (DAY_S, json.dumps(days), tenant),
        )
        return [RequestSums(*row) for row in rows.fetchall()]

    def stages(self, span_s: int, since_s: float) -> list[StageSums]:
        """Milliseconds per stage since a time, by engine; the empty engine is an exact hit's. Of all tenants together."""
        rows = self._db.read().execute(
            "SELECT engine, stage, sum(requests), sum(sum_ms) FROM stage_rollups"
            " WHERE span_s = ? AND start_s >= ? GROUP BY 1, 2 ORDER BY 1, 2",
            (span_s, int(since_s)),
        )
        return [StageSums(*row) for row in rows.fetchall()]

    def latencies(self, span_s: int, since_s: float) -> list[LatencyCount]:
        """Histograms since a time, by engine and measure: see `percentile`. Of all tenants together."""
        rows = self._db.read().execute(
            "SELECT engine, measure, bucket, sum(requests) FROM latency_rollups"
            " WHERE span_s = ? AND start_s >= ? GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
            (span_s, int(since_s)),
        )
        return [LatencyCount(*row) for row in rows.fetchall()]

    def latencies_over_time(
        self, span_s: int, since_s: float, until_s: float
    ) -> dict[tuple[int, str], list[tuple[int, int]]]:
        """Histograms of [since_s, until_s) by start and measure, for `percentile`. Of all tenants and engines together."""
        rows = self._db.read().execute(
            "SELECT start_s, measure, bucket, sum(requests) FROM latency_rollups"
            " WHERE span_s = ? AND start_s >= ? AND start_s < ? GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
            (span_s, int(since_s), int(until_s)),
        )
        found: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for start_s, measure, bucket, requests in rows.fetchall():
            found.setdefault((start_s, measure), []).append((bucket, requests))
        return found

    def by_tenant(self, since_s: float, span_s: int = HOUR_S) -> list[tuple[str, int, float, int]]:
        """(tenant, requests, cost in dollars, tokens) since a time, rounded down to the hour, or to the day."""
        rows = self._db.read().execute(
            "SELECT tenant, sum(requests), sum(cost_usd), sum(prompt_tokens + completion_tokens)"
            " FROM request_rollups WHERE span_s = ? AND start_s >= ? GROUP BY 1",
            (span_s, int(since_s // span_s * span_s)),
        )
        return rows.fetchall()

    def by_key(self, since_s: float) -> list[tuple[str, int, float, int]]:
        """(key id, requests, cost in dollars, tokens) since a time, rounded down to the hour."""
        rows = self._db.read().execute(
            "SELECT key_id, sum(requests), sum(cost_usd), sum(tokens) FROM key_rollups WHERE start_s >= ? GROUP BY 1",
            (int(since_s // HOUR_S * HOUR_S),),
        )
        return rows.fetchall()


def percentile(counts: Sequence[tuple[int, int]], share: float) -> float | None:
    """The milliseconds below which `share` of the requests lie, from (bucket, requests) by bucket; None without any.

    The geometric middle of its bucket: at most 4.5 % off.
    """
    wanted, seen = share * sum(count for _, count in counts), 0
    for bucket, count in counts:
        seen += count
        if seen >= wanted:
            return float(2 ** ((bucket + 0.5) / _STEPS_PER_DOUBLING))
    return None


def requests_deleted(connection: Connection) -> None:
    """To be called inside the job that deletes requests: SQLite gives the ids of deleted last rows out again."""
    connection.execute(
        "UPDATE rollup_progress SET deletions = deletions + 1,"
        " last_row_id = min(last_row_id, coalesce((SELECT max(row_id) FROM requests), 0))"
    )


def forget_sums(connection: Connection, tenant: str, key_id: str | None = None) -> None:
    """Have a tenant's sums be those of deleted tenants, or delete what is known of one key of it.

    To be called inside the job that forgets the requests, before they go: those that are in no sum yet are added.
    """
    if key_id is not None:
        connection.execute("DELETE FROM key_rollups WHERE tenant = ? AND key_id = ?", (tenant, key_id))
        return
    _add_uncounted(connection, tenant)
    for statement in (_KEEP_REQUESTS, _KEEP_SPENDING):
        connection.execute(statement, (tenant,))
    for table in ("request_rollups", "key_rollups", "spending"):
        connection.execute(f"DELETE FROM {table} WHERE tenant = ?", (tenant,))  # noqa: S608 - constants


def _add_uncounted(connection: Connection, tenant: str) -> None:
    """Add a tenant's requests that nobody has added up yet. Whoever has read them meanwhile finds that rows were deleted."""
    last: int = connection.execute(
        "UPDATE rollup_progress SET deletions = deletions + 1 RETURNING last_row_id"
    ).fetchone()[0]
    models = connection.execute("SELECT DISTINCT model FROM request_rollups").fetchall()
    sums = _Sums(frozenset(model for (model,) in models))
    for row in connection.execute(_NEXT_OF_TENANT, (tenant, last)).fetchall():
        sums.add(row)
    sums.write(connection)


class _Sums:
    """A batch of requests, added up in memory."""

    def __init__(self, models: frozenset[str]) -> None:
        self._models = models
        self._requests: defaultdict[tuple[Any, ...], list[float]] = defaultdict(lambda: [0.0] * 13)
        self._stages: defaultdict[tuple[Any, ...], list[float]] = defaultdict(lambda: [0, 0.0])
        self._latencies: Counter[tuple[Any, ...]] = Counter()
        self._keys: defaultdict[tuple[Any, ...], list[float]] = defaultdict(lambda: [0, 0.0, 0])

    def add(self, row: Sequence[Any]) -> None:
        """One request, as _NEXT reads it."""
        _, tenant, at_s, model, engine, outcome, examples, prompt, completion, cost, reference, *times = row
        total_ms, first_ms, overhead_ms, stages, key_id = times
        model = model if model in self._models else ""
        streams = first_ms is not None and outcome in ("answered", "failed_over")
        timed = completion if streams and completion > 1 else 0
        streamed_ms = total_ms - first_ms if streams else 0.0
        values = (
            *(1, cost, reference or 0.0, reference is None, cost if reference is None else 0.0),
            *(prompt, completion, total_ms, overhead_ms),
            *(streams, first_ms if streams else 0.0, streamed_ms if timed else 0.0, max(0, timed - 1)),
        )
        for span_s in _KEPT_S:
            start_s = int(at_s) // span_s * span_s
            _into(self._requests[span_s, start_s, tenant, model, engine, outcome, examples > 0], values)
            for stage, took_ms in _stages(stages).items():
                _into(self._stages[span_s, start_s, engine, stage], (1, took_ms))
            if outcome in ("answered", "failed_over", "hit"):
                where = (span_s, start_s, engine)
                self._latencies[*where, "total", _bucket(total_ms)] += 1
                if streams:
                    self._latencies[*where, "first_chunk", _bucket(first_ms)] += 1
                if timed:
                    self._latencies[*where, "token", _bucket(streamed_ms / (timed - 1))] += 1
        if key_id:
            hour = int(at_s) // HOUR_S * HOUR_S
            _into(self._keys[hour, tenant, key_id], (1, cost, prompt + completion))

    def write(self, connection: Connection) -> None:
        """Add everything to the tables, in the order of keys: other processes may add to the same rows."""
        connection.executemany(_ADD_REQUESTS, [(*key, *sums) for key, sums in sorted(self._requests.items())])
        connection.executemany(_ADD_STAGES, [(*key, *sums) for key, sums in sorted(self._stages.items())])
        connection.executemany(
            _ADD_LATENCIES, [(*key, count) for key, count in sorted(self._latencies.items())]
        )
        connection.executemany(_ADD_KEYS, [(*key, *sums) for key, sums in sorted(self._keys.items())])


def _into(sums: list[float], values: Sequence[float]) -> None:
    for index, value in enumerate(values):
        sums[index] += value


def _stages(text: str) -> dict[str, float]:
    try:
        found = orjson.loads(text)
    except ValueError:
        return {}
    return {name[:40]: float(ms) for name, ms in found.items()} if isinstance(found, dict) else {}


def _bucket(ms: float) -> int:
    return math.floor(_STEPS_PER_DOUBLING * math.log2(max(ms, 0.001)))


# A call of a workflow says what the rows of its steps say (store.records.RequestRecord.sums_up).
_READ = (
    "SELECT row_id, tenant, started_at_s, model, engine,"
    " CASE WHEN outcome = 'answered' AND failed_over <> '' THEN 'failed_over' ELSE outcome END,"
    " example_count, CASE WHEN run <> '' AND step = '' THEN 0 ELSE prompt_tokens END,"
    " CASE WHEN run <> '' AND step = '' THEN 0 ELSE completion_tokens END,"
    " cost_usd, reference_cost_usd, total_ms, first_chunk_ms, overhead_ms, stages_ms, key_id"
    " FROM requests WHERE "
)
_NEXT = _READ + "row_id > ? AND row_id <= ? ORDER BY row_id LIMIT ?"
_NEXT_OF_TENANT = _READ + "tenant = ? AND row_id > ? ORDER BY row_id"
_SUMS = (
    *("requests", "cost_usd", "reference_cost_usd", "unreckoned", "unreckoned_usd", "prompt_tokens"),
    *("completion_tokens", "total_ms", "overhead_ms", "streams", "first_chunk_ms", "streamed_ms"),
    "streamed_tokens",
)
_SUMMED = ", ".join(f"sum({name})" for name in _SUMS)
_OF_TENANT = "AND (:tenant IS NULL OR tenant = :tenant)"
_DIMENSIONS = ("span_s", "start_s", "tenant", "model", "engine", "outcome", "with_examples")
_SUM_UP_REQUESTS = f" ON CONFLICT ({', '.join(_DIMENSIONS)}) DO UPDATE SET " + ", ".join(
    f"{name} = request_rollups.{name} + excluded.{name}" for name in _SUMS
)
_ADD_REQUESTS = f"INSERT INTO request_rollups VALUES ({', '.join('?' * 20)})" + _SUM_UP_REQUESTS  # noqa: S608
_COLUMNS = (*_DIMENSIONS, *_SUMS)
_KEEP_REQUESTS = (
    f"INSERT INTO request_rollups ({', '.join(_COLUMNS)})"  # noqa: S608 - constants
    f" SELECT {', '.join(_COLUMNS).replace('tenant', repr(DELETED))}"
    f" FROM request_rollups WHERE tenant = ?{_SUM_UP_REQUESTS}"
)
_KEEP_SPENDING = (
    "INSERT INTO spending (unit, span_s, tenant, start_s, amount)"  # noqa: S608 - a constant
    f" SELECT unit, span_s, '{DELETED}', start_s, amount FROM spending WHERE tenant = ?"
    " ON CONFLICT (unit, span_s, tenant, start_s) DO UPDATE SET amount = spending.amount + excluded.amount"
)
_ADD_STAGES = (
    "INSERT INTO stage_rollups VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (span_s, start_s, engine, stage) DO UPDATE"
    " SET requests = stage_rollups.requests + excluded.requests, sum_ms = stage_rollups.sum_ms + excluded.sum_ms"
)
_ADD_LATENCIES = (
    "INSERT INTO latency_rollups VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (span_s, start_s, engine, measure, bucket) DO UPDATE"
    " SET requests = latency_rollups.requests + excluded.requests"
)
_ADD_KEYS = (
    "INSERT INTO key_rollups VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (start_s, tenant, key_id) DO UPDATE SET"
    " requests = key_rollups.requests + excluded.requests, cost_usd = key_rollups.cost_usd + excluded.cost_usd,"
    " tokens = key_rollups.tokens + excluded.tokens"
)


class RequestSums(NamedTuple):
    """Requests of one period that have their model, engine, outcome and use of examples in common."""

    start_s: int
    """Unix seconds; 0 where all periods are added up."""
    model: str
    """Empty for names that are not served here."""
    engine: str
    """Empty for an exact hit."""
    outcome: str
    """As in the log; `failed_over` for an answer by another engine than was decided on."""
    with_examples: int
    requests: int
    cost_usd: float
    reference_cost_usd: float
    """What the reference engine would have charged for those it was reckoned for."""
    unreckoned: int
    """Requests it was not reckoned for."""
    unreckoned_usd: float
    """What those cost."""
    prompt_tokens: int
    completion_tokens: int
    total_ms: float
    overhead_ms: float
    streams: int
    """Answered streams; the next three are theirs."""
    first_chunk_ms: float
    streamed_ms: float
    """From the first chunk to the end, of streams with two tokens or more."""
    streamed_tokens: int
    """Tokens after the first, of the same."""


class StageSums(NamedTuple):
    """One stage of requests that one engine answered."""

    engine: str
    stage: str
    requests: int
    sum_ms: float


class LatencyCount(NamedTuple):
    """One bar of a histogram."""

    engine: str
    measure: str
    """total, first_chunk, or token: milliseconds per token after the first."""
    bucket: int
    requests: int
