"""What replay changed, and what became of the requests that were answered with examples before and after. Reads only."""

from __future__ import annotations

import json
from collections.abc import Sequence

from store.database import Database
from store.jobs.replay_records import Changed, ChargedUse, JudgedUse


class ReplayEffects:
    """Reads the steps of runs, outcomes and requests. Every read is bounded."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def changed(self, run_ids: Sequence[int]) -> dict[int, list[Changed]]:
        """The examples that each of these runs changed; a run that changed none is left out.

        Those whose answers it replaced; and those that it wrote, with the ones that they are variations of: what is asked
        like these was answered by the one before, and by either since.
        """
        rows = self._db.read().execute(_CHANGED, (json.dumps(list(run_ids)),) * 2)
        found: dict[int, list[Changed]] = {}
        for run_id, example_id, at_s in rows.fetchall():
            found.setdefault(run_id, []).append(Changed(example_id, at_s))
        return found

    def judged(
        self, since_s: float, until_s: float, *, tenant: str | None, limit: int, latest: bool
    ) -> list[JudgedUse]:
        """Judged answers with examples of [since_s, until_s): among `limit` outcomes, the latest or the first."""
        rows = self._db.read().execute(
            _JUDGED.format(order="DESC" if latest else "ASC"),
            {"since": since_s, "until": until_s, "tenant": tenant, "limit": limit},
        )
        return [
            JudgedUse(at_s, tuple(json.loads(ids)), quality, probability)
            for at_s, ids, quality, probability in rows.fetchall()
        ]

    def charged(
        self, since_s: float, until_s: float, *, tenant: str | None, limit: int, latest: bool
    ) -> list[ChargedUse]:
        """Answers with examples of [since_s, until_s) whose reference cost is known: among `limit` requests, as above.

        Without those by another engine than was decided on.
        """
        rows = self._db.read().execute(
            _CHARGED.format(order="DESC" if latest else "ASC"),
            {"since": since_s, "until": until_s, "tenant": tenant, "limit": limit},
        )
        return [ChargedUse(at_s, tuple(json.loads(ids)), saved) for at_s, ids, saved in rows.fetchall()]


_JUDGED = (
    "SELECT coalesce(r.started_at_s, o.at_s), o.example_ids, o.quality, o.probability FROM"
    " (SELECT request_id, tenant, at_s, example_ids, quality, probability, source, served FROM outcomes"
    " WHERE at_s >= :since AND at_s < :until AND (:tenant IS NULL OR tenant = :tenant)"
    " ORDER BY at_s {order} LIMIT :limit) AS o LEFT JOIN requests r ON r.id = o.request_id"
    " WHERE o.source = 'judge' AND o.served = 1 AND o.example_ids <> '[]' ORDER BY o.at_s"
)
_CHARGED = (
    "SELECT started_at_s, example_ids, reference_cost_usd - cost_usd FROM"
    " (SELECT started_at_s, example_ids, example_count, reference_cost_usd, cost_usd, unpriced, outcome, failed_over"
    " FROM requests WHERE started_at_s >= :since AND started_at_s < :until"
    " AND (:tenant IS NULL OR tenant = :tenant) ORDER BY started_at_s {order} LIMIT :limit) AS r"
    " WHERE example_count > 0 AND outcome = 'answered' AND reference_cost_usd IS NOT NULL AND unpriced = 0"
    " AND failed_over = '' ORDER BY started_at_s"
)
_OF_RUNS = "s.run_id IN (SELECT CAST(value AS INTEGER) FROM json_each(?)) AND s.state = 'done'"
_CHANGED = (
    f"SELECT s.run_id, s.example_id, s.changed_at_s FROM replay_steps s WHERE {_OF_RUNS}"  # noqa: S608 - constants
    " AND s.result IN ('replaced', 'expanded')"
    " UNION ALL SELECT s.run_id, l.example_id, s.changed_at_s FROM replay_steps s JOIN example_lineage l"
    " ON l.run_id = s.run_id AND l.tenant = s.tenant AND l.parent_id = s.example_id"
    f" WHERE {_OF_RUNS} AND s.result = 'expanded' ORDER BY 1, 2"
)
