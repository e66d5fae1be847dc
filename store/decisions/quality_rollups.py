"""Sums over judgements, feedback and reviews by minute, hour and day: of the quality of answers that clients got.

Derived from the log of outcomes by whoever shows it (`catch_up`). The sums are those that a weighted mean and its interval
need (learning.evaluation.mean_quality), so that a month is read in some hundred rows. Holds no content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from store.database import Database
from store.sums import DAY_S, EVER_S, HOUR_S, KEPT_FOR_PAGES, MINUTE_S, Batch, LogInSums, Sums, by_span

EVERYBODY = "*"
"""Stands for all tenants together: such rows stay when a tenant goes."""
_BATCH = 1_000
_SOURCES = ("judge", "user", "label")
QUALITY = Sums(
    "quality_rollups",
    ("tenant", "key_id", "model", "engine", "source", "failed_over"),
    ("outcomes", "weight", "quality", "weight_2", "quality_2", "square_2"),
    KEPT_FOR_PAGES,
)


class QualitySums(NamedTuple):
    """Outcomes of one period that have their model, engine and source in common."""

    start_s: int
    """Unix seconds; 0 where all periods are added up."""
    model: str
    engine: str
    source: str
    """judge, user or label: what people said in the admin pages' review is a label."""
    failed_over: int
    """1: of answers by another engine than was decided on."""
    outcomes: int
    weight: float
    """Sum of w, one over the probability with which an answer was picked for judging."""
    quality: float
    """Sum of w q."""
    weight_2: float
    """Sum of w^2."""
    quality_2: float
    """Sum of w^2 q."""
    square_2: float
    """Sum of w^2 q^2."""


class LatelySums(NamedTuple):
    """What is known of an engine's answers to a model's requests: of one tenant or EVERYBODY, by one source."""

    tenant: str
    model: str
    engine: str
    source: str
    latest: QualitySums
    """Of the latest outcomes: as many as were asked for, with the rest of the minute or hour of the first of them."""
    period: QualitySums
    before: QualitySums
    """Of the period before that one; of no outcomes where there were none."""


class QualityRollups:
    """Keeps the sums up with the log of outcomes, and reads them."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._log = LogInSums(db, "outcomes", _NEXT, _add)

    def catch_up(self, most: int = _BATCH) -> int:
        """Add at most so many outcomes that are not in the sums yet; gives how many were looked at. Blocks.

        Safe in several processes. Raises what writing raises.
        """
        return self._log.catch_up(most)

    def sums(
        self,
        span_s: int,
        since_s: float,
        until_s: float = EVER_S,
        *,
        tenant: str | None = None,
        key_id: str | None = None,
        model: str | None = None,
        by_time: bool = True,
    ) -> list[QualitySums]:
        """Sums of [since_s, until_s), by start, model, engine and source; of one tenant, key or model if named.

        `span_s`: 60, 3600 or 86,400, kept for hours, weeks and a year. A key is found together with its tenant only.
        """
        by = ("start_s" if by_time else "0 AS start", "model", "engine", "source", "failed_over")
        whose = EVERYBODY if tenant is None else tenant
        rows = QUALITY.read(
            self._db.read(), by, span_s, since_s, until_s, tenant=whose, key_id=key_id, model=model
        )
        return [QualitySums(*row) for row in rows]

    def lately(
        self,
        now_s: float,
        period_s: float,
        latest: Mapping[str, int],
        *,
        tenants: Sequence[str] | None = None,
        fewest: int = 1,
    ) -> list[LatelySums]:
        """By tenant, model, engine and source (those of `latest`, with the number of outcomes that are the latest): what
        became known in the last period, where that is `fewest` outcomes at least. Failed-over answers are left out.

        `tenants`: None for all of them, and EVERYBODY. Then whoever has too few is told from sums by day, without a look at
        the hours, and the adding up is the database's: half a second for a hundred thousand outcomes of three thousand
        tenants (`benchmarks.quality_of_tenants`). Blocks.
        """
        since_s = int(now_s - period_s)
        # Minutes are kept for three hours; what is older is read by the hour.
        seam_s = int(now_s // HOUR_S - 2) * HOUR_S
        named = {f"tenant_{n}": tenant for n, tenant in enumerate(tenants or ())}
        whose = _WITH_ENOUGH if tenants is None else f"WITH known (tenant) AS (VALUES {_marks(named)}), "
        rows = self._db.read().execute(
            f"{whose}{_LATELY}",
            {
                **named,
                "judge": latest.get("judge", 0),
                "user": latest.get("user", 0),
                "label": latest.get("label", 0),
                "before": int(now_s - 2 * period_s),
                "since": since_s,
                "day": since_s // DAY_S * DAY_S,
                "seam": seam_s,
                "fewest": fewest,
            },
        )
        count = len(_SUMS)
        found = []
        for tenant, model, engine, source, *sums in rows.fetchall():
            parts = (
                QualitySums(0, model, engine, source, 0, *sums[n * count : (n + 1) * count]) for n in range(3)
            )
            found.append(LatelySums(tenant, model, engine, source, *parts))
        return found


def _add(batch: Batch, row: Sequence[Any]) -> None:
    """Add one outcome, as _NEXT reads it."""
    _, served, tenant, at_s, key_id, model, engine, source, failed_over, quality, probability = row
    # Without a model its choice is not there yet: it comes again, with a new id.
    if not (served and model and source in _SOURCES):
        return
    w = 1.0 / probability
    values = (1, w, w * quality, w * w, w * w * quality, w * w * quality * quality)
    for span in by_span(KEPT_FOR_PAGES, at_s):
        for whose, key in ((EVERYBODY, ""), (tenant, key_id)):
            batch.add(QUALITY, (*span, whose, key, model, engine, source, failed_over), values)


_SUMS = QUALITY.amounts
_LISTED = ", ".join(_SUMS)
# A policy that looks at no request leaves no choice: then the request says which model it was for.
_NEXT = (
    "SELECT o.id, o.served, o.tenant, o.at_s, coalesce(r.key_id, ''),"
    " CASE WHEN o.model = '' AND r.policy = 'fixed' THEN r.model ELSE o.model END, o.engine, o.source,"
    " CASE WHEN coalesce(r.failed_over, '') <> '' THEN 1 ELSE 0 END, o.quality, o.probability"
    " FROM (SELECT * FROM outcomes WHERE id > ? AND id <= ? ORDER BY id LIMIT ?) AS o"
    " LEFT JOIN requests r ON r.id = o.request_id AND r.tenant = o.tenant ORDER BY o.id"
)


def _marks(names: Mapping[str, str]) -> str:
    return ", ".join(f"(:{name})" for name in names)


def _of(condition: str) -> str:
    return ", ".join(f"sum(CASE WHEN {condition} THEN {name} ELSE 0 END)" for name in _SUMS)


def _bars(span_s: int, condition: str) -> str:
    # CROSS JOIN: SQLite is to go from tenant to tenant by the primary key. By age it would look up each row.
    return (
        f"SELECT q.tenant, q.model, q.engine, q.source, q.start_s, {_LISTED} FROM known CROSS JOIN quality_rollups q"  # noqa: S608
        f" ON q.tenant = known.tenant WHERE q.span_s = {span_s} AND {condition} AND q.failed_over = 0"
    )


# From one tenant to the next by the primary key: nothing of what lies between is read.
_WITH_ENOUGH = f"""WITH RECURSIVE everyone (tenant) AS (
    SELECT min(tenant) FROM quality_rollups
    UNION ALL
    SELECT (SELECT min(q.tenant) FROM quality_rollups q WHERE q.tenant > everyone.tenant) FROM everyone
    WHERE everyone.tenant IS NOT NULL
), known (tenant) AS (
    SELECT tenant FROM everyone WHERE tenant IS NOT NULL AND (
        SELECT sum(q.outcomes) FROM quality_rollups q
        WHERE q.tenant = everyone.tenant AND q.span_s = {DAY_S} AND q.start_s >= :day
    ) >= :fewest
), """  # noqa: S608 - constants
_LATELY = f"""halves AS (
    {_bars(HOUR_S, "q.start_s >= :before AND q.start_s < :seam")}
    UNION ALL
    {_bars(MINUTE_S, "q.start_s >= :seam")}
), bars AS (
    SELECT tenant, model, engine, source, start_s, {", ".join(f"sum({name}) AS {name}" for name in _SUMS)}
    FROM halves GROUP BY 1, 2, 3, 4, 5
), counted AS (
    SELECT bars.*, sum(outcomes) OVER (
        PARTITION BY tenant, model, engine, source ORDER BY start_s DESC
    ) - outcomes AS later,
    CASE source WHEN 'judge' THEN :judge WHEN 'user' THEN :user WHEN 'label' THEN :label ELSE 0 END AS most
    FROM bars
)
SELECT tenant, model, engine, source, {_of("start_s >= :since AND later < most")}, {_of("start_s >= :since")},
{_of("start_s < :since")}
FROM counted GROUP BY 1, 2, 3, 4
HAVING sum(CASE WHEN start_s >= :since THEN outcomes ELSE 0 END) >= :fewest ORDER BY 1, 2, 3, 4"""  # noqa: S608 - constants
