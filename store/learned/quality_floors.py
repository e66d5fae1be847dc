"""How much of each tenant's traffic may be offloaded, and the account this follows from. One row per served model.

Derived from choices and outcomes; the learner writes it, workers read the cap. Knows rows, not how they come about.
"""

from __future__ import annotations

import math
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

from store.database import Database


@dataclass(frozen=True, slots=True)
class FloorRow:
    """The account of one (tenant, served model)."""

    tenant: str
    model: str
    at_s: float
    """When it was brought up to date, Unix seconds: an old one must not be trusted."""
    cap: float
    """Share of traffic that may be offloaded, 0 to 1."""
    standing: Literal["holds", "limiting", "threatened"]
    last_choice: int
    """`row_id` of the last choice that is in it."""
    last_outcome: int
    """Id of the last outcome that is in it."""
    state: str
    """JSON of router.guarantee.floor; no text of anybody's."""


class QualityFloors:
    """Keeps the accounts: the learner puts them, workers read the cap."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, row: FloorRow) -> Future[bool]:
        """Keep it in place of the last one; False if that had seen more of the log: two learners must not undo each other.

        Raises ValueError for a cap outside 0 to 1, and StoreBusy.
        """
        if not 0.0 <= row.cap <= 1.0 or not math.isfinite(row.at_s):
            raise ValueError(f"cap is {row.cap} at {row.at_s}: a share lies between 0 and 1")
        values = (
            row.tenant,
            row.model,
            row.at_s,
            row.cap,
            row.standing,
            row.last_choice,
            row.last_outcome,
            row.state,
        )
        return self._db.write(lambda connection: connection.execute(_PUT, values).rowcount == 1)

    def get(self, tenant: str, model: str) -> FloorRow | None:
        """One account, or None."""
        row = self._db.read().execute(_SELECT + " WHERE tenant = ? AND model = ?", (tenant, model)).fetchone()
        return FloorRow(*row) if row is not None else None

    def all(self, tenant: str | None = None, model: str | None = None) -> list[FloorRow]:
        """Every account, of one tenant or served model if named, in the order of their names."""
        rows = self._db.read().execute(
            _SELECT + " WHERE (:tenant IS NULL OR tenant = :tenant) AND (:model IS NULL OR model = :model)"
            " ORDER BY tenant, model",
            {"tenant": tenant, "model": model},
        )
        return [FloorRow(*row) for row in rows.fetchall()]

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete a tenant's accounts; gives how many. What may be offloaded then has to be earned from nothing."""
        return self._db.write(
            lambda connection: (
                connection.execute("DELETE FROM quality_floors WHERE tenant = ?", (tenant,)).rowcount
            )
        )


_COLUMNS = "tenant, model, at_s, cap, standing, last_choice, last_outcome, state"
_SELECT = f"SELECT {_COLUMNS} FROM quality_floors"  # noqa: S608 - a constant
_PUT = (
    f"INSERT INTO quality_floors ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - a constant
    " ON CONFLICT (tenant, model) DO UPDATE SET at_s = excluded.at_s, cap = excluded.cap, standing = excluded.standing,"
    " last_choice = excluded.last_choice, last_outcome = excluded.last_outcome, state = excluded.state"
    " WHERE excluded.last_choice >= quality_floors.last_choice AND excluded.last_outcome >= quality_floors.last_outcome"
)
