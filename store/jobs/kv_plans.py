"""Which examples' prefixes each engine is to keep warm, and what warming them has cost. Knows neither engine nor text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from store.database import Connection, Database
from store.generation import Generation


@dataclass(frozen=True, slots=True)
class KvPlanExample:
    """One example of a plan."""

    example_id: int
    tenant: str
    """In whose prompts it stands."""
    tokens: int
    uses: float
    """Decayed by 0.9 per hour."""


@dataclass(frozen=True, slots=True)
class KvPlanRow:
    """One engine's plan as a whole."""

    engine: str
    planned_at_s: float
    figures: Mapping[str, Any]
    warmed: int
    """Requests sent to warm something, ever."""
    warmed_tokens: int
    warmed_cached_tokens: int
    """Prompt tokens of these that turned out to be warm already."""
    warmed_usd: float


class KvPlans:
    """Keeps one plan per engine. The process that replays writes, workers read."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._generation = Generation(db, "kv_plans")

    def put(
        self, engine: str, examples: Sequence[KvPlanExample], figures: Mapping[str, Any], at_s: float
    ) -> Future[None]:
        """Take this in place of the engine's last plan; the order of `examples` is theirs in prompts. Raises StoreBusy."""

        def write(connection: Connection) -> None:
            connection.execute("DELETE FROM kv_plan_examples WHERE engine = ?", (engine,))
            # An example may have been removed since the plan was made. `saves_ms` is a column of earlier versions.
            connection.executemany(
                "INSERT INTO kv_plan_examples (engine, example_id, tenant, place, tokens, uses, saves_ms)"
                " SELECT ?, ?, ?, ?, ?, ?, 0.0 WHERE EXISTS (SELECT 1 FROM examples WHERE id = ?)",
                [
                    (engine, e.example_id, e.tenant, place, e.tokens, e.uses, e.example_id)
                    for place, e in enumerate(examples)
                ],
            )
            connection.execute(
                "INSERT INTO kv_plans (engine, planned_at_s, figures) VALUES (?, ?, ?)"
                " ON CONFLICT (engine) DO UPDATE SET planned_at_s = excluded.planned_at_s, figures = excluded.figures",
                (engine, at_s, json.dumps(figures, separators=(",", ":"))),
            )
            self._generation.bump(connection)

        return self._db.write(write)

    def note_warmed(self, engine: str, *, tokens: int, cached_tokens: int, usd: float) -> Future[None]:
        """Count one request that warmed something."""

        def add(connection: Connection) -> None:
            connection.execute(
                "UPDATE kv_plans SET warmed = warmed + 1, warmed_tokens = warmed_tokens + ?,"
                " warmed_cached_tokens = warmed_cached_tokens + ?, warmed_usd = warmed_usd + ? WHERE engine = ?",
                (tokens, cached_tokens, usd, engine),
            )

        return self._db.write(add)

    def examples(self, engine: str) -> list[KvPlanExample]:
        """An engine's plan in its order; empty without one."""
        rows = self._db.read().execute(
            "SELECT example_id, tenant, tokens, uses FROM kv_plan_examples WHERE engine = ? ORDER BY place",
            (engine,),
        )
        return [KvPlanExample(*row) for row in rows.fetchall()]

    def plans(self) -> list[KvPlanRow]:
        """Every engine's plan as a whole."""
        rows = self._db.read().execute(
            "SELECT engine, planned_at_s, figures, warmed, warmed_tokens, warmed_cached_tokens, warmed_usd"
            " FROM kv_plans ORDER BY engine"
        )
        return [KvPlanRow(row[0], row[1], json.loads(row[2]), *row[3:]) for row in rows.fetchall()]

    def generation(self) -> int:
        """A number that differs whenever a plan was put: see store.generation.Generation."""
        return self._generation.value()
