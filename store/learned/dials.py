"""Settings of the router that operators change while the gateway runs, per served model or for one tenant, with their
history.

The latest row of a model that was not taken back is in force, so that taking it back brings what was in force before. A
tenant's own row goes before the model's, setting by setting. Workers notice within a second.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, replace

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
    tenant: str = ""
    """Whose requests it is for; empty: everybody's."""


class ChangedMeanwhile(Exception):
    """Somebody else changed the settings since they were looked at; the row is what is in force now, None for nothing."""

    def __init__(self, now: TurnedDials | None) -> None:
        super().__init__("the routing settings were changed meanwhile")
        self.now = now


class TurnedDialsLog:
    """Turns dials and takes it back. What was in force when can be told; only a tenant's own go, with the tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._generation = Generation(db, _GENERATION, check_every_s=_LOOK_EVERY_S)

    def turn(self, turned: TurnedDials, *, instead_of: int | None = None) -> Future[TurnedDials]:
        """Put dials in force in place of those before; gives them with their id, once committed.

        `instead_of`: the id of the row that was in force when somebody decided on this, 0 for none; None: whatever is.
        Raises StoreBusy; the future raises ValueRefused for a value that no dial has, and ChangedMeanwhile.
        """
        row = (
            *(turned.model, turned.at_s, turned.user),
            *(turned.preference, turned.theta, turned.m, turned.max_examples, turned.tenant),
        )

        def insert(connection: Connection) -> TurnedDials:
            self._db.hold(connection, _GENERATION)
            if instead_of is not None:
                now = _in_force(connection, turned.model, turned.tenant)
                if instead_of != (now.id if now is not None else 0):
                    raise ChangedMeanwhile(now)
            id = connection.execute(_INSERT, row).fetchone()[0]
            self._generation.bump(connection)
            return replace(turned, id=id)

        return self._db.write(insert)

    def take_back(
        self, model: str, user: str, tenant: str = "", *, instead_of: int | None = None
    ) -> Future[bool]:
        """Take the dials in force back: those before are in force again. False if none were turned.

        `instead_of`: as in `turn`; the future raises ChangedMeanwhile.
        """
        now_s = time.time()

        def update(connection: Connection) -> bool:
            self._db.hold(connection, _GENERATION)
            if instead_of is not None:
                now = _in_force(connection, model, tenant)
                if instead_of != (now.id if now is not None else 0):
                    raise ChangedMeanwhile(now)
            changed = connection.execute(_TAKE_BACK, (now_s, user, model, tenant)).rowcount
            if changed:
                self._generation.bump(connection)
            return changed > 0

        return self._db.write(update)

    def in_force(self, model: str, tenant: str = "") -> TurnedDials | None:
        """What is in force for a served model, or a tenant's own; None where nothing was turned."""
        return _in_force(self._db.read(), model, tenant)

    def of_tenants(self, model: str) -> dict[str, TurnedDials]:
        """What is in force for single tenants, by tenant."""
        rows = self._db.read().execute(
            _SELECT + " WHERE model = ? AND tenant <> '' AND taken_back_at_s IS NULL ORDER BY tenant, id",
            (model,),
        )
        return {row[-1]: TurnedDials(*row) for row in rows.fetchall()}

    def history(self, model: str, limit: int = 20) -> list[TurnedDials]:
        """The last turns of a model, a tenant's own among them, newest first, taken back or not."""
        rows = self._db.read().execute(
            _SELECT + " WHERE model = ? ORDER BY at_s DESC, id DESC LIMIT ?", (model, limit)
        )
        return [TurnedDials(*row) for row in rows.fetchall()]

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete a tenant's own; gives how many turns. Nothing for the empty tenant: the rest is everybody's."""

        def delete(connection: Connection) -> int:
            gone = connection.execute(
                "DELETE FROM dials WHERE tenant = ? AND tenant <> ''", (tenant,)
            ).rowcount
            if gone:
                self._generation.bump(connection)
            return gone

        return self._db.write(delete)

    def generation(self) -> int:
        """A number that differs whenever any model's dials may have changed. Costs next to nothing."""
        return self._generation.value()


def _in_force(connection: Connection, model: str, tenant: str) -> TurnedDials | None:
    row = connection.execute(
        _SELECT + " WHERE model = ? AND tenant = ? AND taken_back_at_s IS NULL ORDER BY id DESC LIMIT 1",
        (model, tenant),
    ).fetchone()
    return None if row is None else TurnedDials(*row)


_COLUMNS = 'model, at_s, "user", preference, theta, m, max_examples'
_SELECT = f"SELECT {_COLUMNS}, taken_back_at_s, taken_back_by, id, tenant FROM dials"  # noqa: S608 - a constant
_INSERT = f"INSERT INTO dials ({_COLUMNS}, tenant) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"  # noqa: S608 - a constant
_TAKE_BACK = (
    "UPDATE dials SET taken_back_at_s = ?, taken_back_by = ? WHERE id ="
    " (SELECT max(id) FROM dials WHERE model = ? AND tenant = ? AND taken_back_at_s IS NULL)"
)
