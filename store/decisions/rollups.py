"""Sums over requests by minute, hour and day: what pages over a day or a week are made from, whatever the log's length.

Derived from the log by whoever shows it (`catch_up`), in its own time: a request pays nothing for it. Holds no content.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import orjson

from store.database import Connection, Database
from store.sums import (
    EVER_S,
    HOUR_S,
    KEPT_FOR_PAGES,
    MINUTE_S,
    Batch,
    LogInSums,
    Sums,
    by_span,
    last_summed,
    log_changed,
)

_BATCH = 5_000
_STEPS_PER_DOUBLING = 8
REQUESTS = Sums(
    "request_rollups",
    ("tenant", "model", "engine", "outcome", "with_examples"),
    (
        *("requests", "cost_usd", "reference_cost_usd", "unreckoned", "unreckoned_usd", "prompt_tokens"),
        *("completion_tokens", "total_ms", "overhead_ms", "streams", "first_chunk_ms", "streamed_ms"),
        "streamed_tokens",
    ),
    KEPT_FOR_PAGES,
)
TIMES = Sums("time_sums", ("engine", "measure", "stage", "bucket"), ("requests", "sum_ms"), KEPT_FOR_PAGES)
"""Histograms of milliseconds (total, first_chunk, token), and the milliseconds of stages, of all tenants together."""


class RequestRollups:
    """Keeps the sums up with the log, and reads them."""

    def __init__(self, db: Database, models: Iterable[str] = ()) -> None:
        """`models`: names that have rows of their own; any other, which a client may have made up, shares one."""
        self._db = db
        self._log = LogInSums(db, "requests", _NEXT, partial(_add, frozenset(models)))

    def catch_up(self, most: int = _BATCH) -> int:
        """Add at most so many requests that are not in the sums yet; gives how many. Blocks for some milliseconds.

        Safe in several processes: of two that add the same requests one does. Raises what writing raises.
        """
        return self._log.catch_up(most)

    def behind(self) -> int:
        """About how many requests are not in the sums yet."""
        read = self._db.read()
        row = read.execute("SELECT coalesce(max(row_id), 0) FROM requests").fetchone()
        return max(0, int(row[0]) - last_summed(read, "requests")[0])

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
        by = ("start_s" if by_time else "0 AS start", "model", "engine", "outcome", "with_examples")
        rows = REQUESTS.read(self._db.read(), by, span_s, since_s, until_s, tenant=tenant, model=model)
        return [RequestSums(*row) for row in rows]

    def stages(self, span_s: int, since_s: float) -> list[StageSums]:
        """Milliseconds per stage since a time, by engine; the empty engine is an exact hit's. Of all tenants together."""
        by = ("engine", "stage")
        return [StageSums(*row) for row in TIMES.read(self._db.read(), by, span_s, since_s, measure="stage")]

    def latencies(self, span_s: int, since_s: float, until_s: float = EVER_S) -> list[LatencyCount]:
        """Histograms of [since_s, until_s), by engine and measure: see `percentile`. Of all tenants together."""
        rows = self._histograms("engine", span_s, since_s, until_s)
        return [LatencyCount(*row) for row in rows]

    def latencies_over_time(
        self, span_s: int, since_s: float, until_s: float
    ) -> dict[tuple[int, str], list[tuple[int, int]]]:
        """Histograms of [since_s, until_s) by start and measure, for `percentile`. Of all tenants and engines together."""
        found: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for start_s, measure, bucket, requests in self._histograms("start_s", span_s, since_s, until_s):
            found.setdefault((start_s, measure), []).append((bucket, requests))
        return found

    def by_tenant(self, since_s: float, span_s: int = HOUR_S) -> list[tuple[str, int, float, int]]:
        """(tenant, requests, cost in dollars, tokens) since a time, rounded down to the hour, or to the day."""
        amounts = ("requests", "cost_usd", "prompt_tokens + completion_tokens")
        return REQUESTS.read(
            self._db.read(), ("tenant",), span_s, since_s // span_s * span_s, amounts=amounts
        )

    def _histograms(
        self, by: str, span_s: int, since_s: float, until_s: float = EVER_S
    ) -> list[tuple[Any, ...]]:
        """(`by`, measure, bucket, requests) of [since_s, until_s)."""
        rows = TIMES.read(
            self._db.read(), (by, "measure", "bucket"), span_s, since_s, until_s, amounts=("requests",)
        )
        return [row for row in rows if row[1] != "stage"]


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
    log_changed(connection, "requests")
    connection.execute(
        "UPDATE sums_progress SET last_id = min(last_id, coalesce((SELECT max(row_id) FROM requests), 0))"
        " WHERE log = 'requests'"
    )


def add_uncounted(connection: Connection, tenant: str) -> None:
    """Add a tenant's requests that are in no sum yet, inside the job that forgets them, before they go.

    Whoever has read them meanwhile finds that rows were deleted.
    """
    log_changed(connection, "requests")
    last, _ = last_summed(connection, "requests")
    models = connection.execute("SELECT DISTINCT model FROM request_rollups").fetchall()
    served = frozenset(model for (model,) in models)
    batch = Batch()
    for row in connection.execute(_NEXT_OF_TENANT, (tenant, last)).fetchall():
        _add(served, batch, row)
    batch.write(connection)


def _add(models: frozenset[str], batch: Batch, row: Sequence[Any]) -> None:
    """Add one request, as _NEXT reads it."""
    _, tenant, at_s, model, engine, outcome, examples, prompt, completion, cost, reference, *times = row
    total_ms, first_ms, overhead_ms, stages = times
    model = model if model in models else ""
    streams = first_ms is not None and outcome in ("answered", "failed_over")
    timed = completion if streams and completion > 1 else 0
    streamed_ms = total_ms - first_ms if streams else 0.0
    values = (
        *(1, cost, reference or 0.0, reference is None, cost if reference is None else 0.0),
        *(prompt, completion, total_ms, overhead_ms),
        *(streams, first_ms if streams else 0.0, streamed_ms if timed else 0.0, max(0, timed - 1)),
    )
    measured: list[tuple[str, float]] = []
    if outcome in ("answered", "failed_over", "hit"):
        measured.append(("total", total_ms))
        if streams:
            measured.append(("first_chunk", first_ms))
        if timed:
            measured.append(("token", streamed_ms / (timed - 1)))
    for span in by_span(KEPT_FOR_PAGES, at_s):
        batch.add(REQUESTS, (*span, tenant, model, engine, outcome, int(examples > 0)), values)
        for stage, took_ms in _stages(stages).items():
            batch.add(TIMES, (*span, engine, "stage", stage, 0), (1, took_ms))
        for measure, ms in measured:
            batch.add(TIMES, (*span, engine, measure, "", _bucket(ms)), (1, 0.0))


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
    " cost_usd, reference_cost_usd, total_ms, first_chunk_ms, overhead_ms, stages_ms"
    " FROM requests WHERE "
)
_NEXT = _READ + "row_id > ? AND row_id <= ? ORDER BY row_id LIMIT ?"
_NEXT_OF_TENANT = _READ + "tenant = ? AND row_id > ? ORDER BY row_id"


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
