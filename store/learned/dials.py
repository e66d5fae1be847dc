"""Settings of the router that operators change while the gateway runs, per served model, with their history.

The latest row of a model that was not taken back is in force, so that taking it back brings what was in force before.
Workers notice within a second.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass

from store.database import Connection, Database
from store.generation import Generation

_GENERATION = "dials"
_LOOK_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class TurnedDials:
    """One turn. None leaves a dial as it was configured."""

    model: str
    at_s: float
    user: str
    """Who turned them."""
    preference: float | None = None
    theta: float | None = None
    m: int | None = None
    max_examples: int | None = None
    taken_back_at_s: float | None = None
    taken_back_by: str | None = None
    id: int = 0
    """0 before it is stored."""


class TurnedDialsLog:
    """Turns dials and takes it back. Nothing is deleted: what was in force when can be told."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._generation = Generation(db, _GENERATION, check_every_s=_LOOK_EVERY_S)

    def turn(self, turned: TurnedDials) -> Future[TurnedDials]:
        """Put dials in force in place of those before; gives them with their id, once committed.

        Raises StoreBusy; the future raises ValueRefused for a value that no dial has.
        """
        row = (
            *(turned.model, turned.at_s, turned.user),
            *(turned.preference, turned.theta, turned.m, turned.max_examples),
        )

        def insert(connection: Connection) -> TurnedDials:
            id = connection.execute(
                'INSERT INTO dials (model, at_s, "user", preference, theta, m, max_examples)'
                " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
                row,
            ).fetchone()[0]
            self._generation.bump(connection)
            return TurnedDials(*row, id=id or 0)

        return self._db.write(insert)

    def take_back(self, model: str, user: str) -> Future[bool]:
        """Take the dials in force back: those before are in force again. False if none were turned."""

        def update(connection: Connection) -> bool:
            changed = connection.execute(
                "UPDATE dials SET taken_back_at_s = ?, taken_back_by = ? WHERE id ="
                " (SELECT max(id) FROM dials WHERE model = ? AND taken_back_at_s IS NULL)",
                (time.time(), user, model),
            ).rowcount
            if changed:
                self._generation.bump(connection)
            return changed > 0

        return self._db.write(update)

    def in_force(self, model: str) -> TurnedDials | None:
        """What is in force for a served model; None where all is as configured."""
        row = (
            self._db.read()
            .execute(
                _SELECT + " WHERE model = ? AND taken_back_at_s IS NULL ORDER BY id DESC LIMIT 1", (model,)
            )
            .fetchone()
        )
        return None if row is None else TurnedDials(*row)

    def history(self, model: str, limit: int = 20) -> list[TurnedDials]:
        """The last turns of a model, newest first, taken back or not."""
        rows = self._db.read().execute(_SELECT + " WHERE model = ? ORDER BY id DESC LIMIT ?", (model, limit))
        return [TurnedDials(*row) for row in rows.fetchall()]

    def generation(self) -> int:
        """A number that differs whenever any model's dials may have changed. Costs next to nothing."""
        return self._generation.value()


_SELECT = 'SELECT model, at_s, "user", preference, theta, m, max_examples, taken_back_at_s, taken_back_by, id FROM dials'
