"""Who contributed to a tenant's bank, by the names given with the examples. Knows no key and no user."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from cachetools import TTLCache

from store.database import Database
from store.records import GOOD_QUALITY


@dataclass(frozen=True, slots=True)
class Standing:
    """What the bank knows of one API key among the others of its tenant. Times in seconds since the epoch."""

    examples: int
    last_hour: int
    first_seen_s: float
    bank_first_seen_s: float
    others: int
    judged_good: int
    judged_bad: int


class Contributors:
    """Who contributed what to each tenant's bank."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def names(self, tenant: str) -> list[str]:
        """Everyone of whom the tenant has an example, an exact answer, a choice, feedback, a label, a run or a text."""
        rows = self._db.read().execute(
            "SELECT contributor FROM example_accounts WHERE tenant = :tenant AND contributor <> ''"
            " UNION SELECT contributor FROM choices WHERE tenant = :tenant AND contributor <> ''"
            " UNION SELECT contributor FROM feedback WHERE tenant = :tenant AND contributor <> ''"
            " UNION SELECT contributor FROM private_questions WHERE tenant = :tenant AND contributor <> ''"
            " UNION SELECT contributor FROM exact_answers WHERE tenant = :tenant AND contributor <> ''"
            " UNION SELECT contributor FROM kept_responses WHERE tenant = :tenant AND contributor <> ''"
            " UNION SELECT contributor FROM task_answers WHERE tenant = :tenant AND contributor <> ''"
            " UNION SELECT contributor FROM workflow_runs WHERE tenant = :tenant AND contributor <> ''"
            " UNION SELECT s.contributor FROM workflow_steps s JOIN workflow_runs r ON r.id = s.run_id"
            " WHERE r.tenant = :tenant AND s.contributor <> ''"
            " UNION SELECT contributor FROM variables WHERE tenant = :tenant AND contributor <> ''"
            " UNION SELECT contributor FROM workflows WHERE tenant = :tenant AND contributor <> ''"
            " UNION SELECT contributor FROM collection_texts WHERE tenant = :tenant AND contributor <> ''"
            " UNION SELECT contributor FROM request_texts WHERE tenant = :tenant AND contributor <> '' ORDER BY 1",
            {"tenant": tenant},
        )
        return [name for (name,) in rows.fetchall()]

    def tenants(self) -> list[str]:
        """Every tenant of whom there is an example, an exact answer, a choice, feedback, a task, run, workflow or text."""
        rows = self._db.read().execute(
            "SELECT tenant FROM example_totals UNION SELECT tenant FROM exact_answers"
            " UNION SELECT tenant FROM choices UNION SELECT tenant FROM feedback UNION SELECT tenant FROM request_texts"
            " UNION SELECT tenant FROM private_questions UNION SELECT tenant FROM tasks"
            " UNION SELECT tenant FROM task_answers"
            " UNION SELECT tenant FROM workflow_runs UNION SELECT tenant FROM variables"
            " UNION SELECT tenant FROM workflows UNION SELECT tenant FROM collection_texts"
            " ORDER BY 1"
        )
        return [tenant for (tenant,) in rows.fetchall()]

    def standings(self, *, good_quality: float = 0.8) -> Standings:
        """Says how each key stands; a judgement of at least `good_quality` is a good one."""
        return Standings(self._db, good_quality=good_quality)


class Standings:
    """Answers who has contributed how much. An answer may be a few seconds old: counting anew for every pair would cost
    more than keeping the pair."""

    def __init__(self, db: Database, *, good_quality: float = GOOD_QUALITY) -> None:
        self._db = db
        self._good_quality = good_quality
        self._known: TTLCache[tuple[str, str], Standing] = TTLCache(10_000, 5.0)
        self._lock = threading.Lock()

    def of(self, tenant: str, key_id: str, now_s: float) -> Standing:
        """The key's standing in that tenant's bank. Contributors are named `<key id>/...`. Blocks: reads the database."""
        with self._lock:
            known = self._known.get((tenant, key_id))
        if known is None:
            known = self._read(tenant, key_id, now_s)
            with self._lock:
                self._known[tenant, key_id] = known
        return known

    def _read(self, tenant: str, key_id: str, now_s: float) -> Standing:
        # "0" follows "/": together they bound all names that begin with the key's own id.
        own = {"tenant": tenant, "low": f"{key_id}/", "high": f"{key_id}0", "good": self._good_quality}
        count, recent, first, good, bad = self._one(_OWN, own | {"hour_ago": now_s - 3600})
        (others,) = self._one(_OTHERS, own)
        (bank_first,) = self._one(_FIRST, {"tenant": tenant}) or (None,)
        return Standing(count, recent, first or now_s, bank_first or now_s, others, good, bad)

    def _one(self, query: str, values: dict[str, object]) -> tuple[Any, ...]:
        row = self._db.read().execute(query, values).fetchone()
        return tuple(row) if row is not None else (None,)


_OWN = """
    SELECT count(*), count(*) FILTER (WHERE e.created_at_s >= :hour_ago), min(e.created_at_s),
           count(*) FILTER (WHERE a.quality_sum / nullif(a.quality_count, 0) >= :good),
           count(*) FILTER (WHERE a.quality_sum / nullif(a.quality_count, 0) < 0.5)
    FROM example_accounts a JOIN examples e USING (id)
    WHERE a.tenant = :tenant AND a.contributor >= :low AND a.contributor < :high
"""
_OTHERS = """
    SELECT count(DISTINCT substr(contributor, 1, instr(contributor, '/'))) FROM example_accounts
    WHERE tenant = :tenant AND contributor <> '' AND NOT (contributor >= :low AND contributor < :high)
"""
_FIRST = "SELECT created_at_s FROM examples WHERE tenant = :tenant ORDER BY seq LIMIT 1"
