"""What comparing answers in the background has cost, by tenant. Every process reserves here before it spends."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from store.database import Connection, Database
from store.decisions.rollups import DAY_S

_MOMENT_S = 600
_KEPT_S = {_MOMENT_S: 3 * DAY_S, DAY_S: 400 * DAY_S}


@dataclass(frozen=True, slots=True)
class Cap:
    """Most that may have been spent since a time: rounded down to ten minutes, or to a day beyond three days ago."""

    since_s: float
    most: float
    tenant: str | None = None
    """None: by all tenants together."""


class Spending:
    """The account of what was spent and what is set aside, in units that the caller names, such as usd."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.reads = db.reads
        """Has `spent` read for an event loop."""

    def reserve(
        self, tenant: str, unit: str, amount: float, at_s: float, caps: Sequence[Cap]
    ) -> Future[bool]:
        """Set an amount aside; False, and nothing is, where a cap would not hold. Exact among processes."""

        def write(connection: Connection) -> bool:
            self._db.hold(connection, "spending")
            for cap in caps:
                spent = _spent(connection, unit, cap.since_s, cap.tenant, at_s)
                # A hair of tolerance: sums of floats must not forbid what adds up to exactly the cap.
                if spent + amount > cap.most + 1e-9 * abs(cap.most):
                    return False
            _add(connection, tenant, unit, amount, at_s)
            return True

        return self._db.write(write)

    def settle(self, tenant: str, unit: str, reserved: float, spent: float, at_s: float) -> Future[None]:
        """Book what was spent of an amount that was reserved at `at_s`, and give the rest back."""

        def write(connection: Connection) -> None:
            self._db.hold(connection, "spending")
            _add(connection, tenant, unit, spent - reserved, at_s)

        return self._db.write(write)

    def spent(self, unit: str, since_s: float, now_s: float, tenant: str | None = None) -> float:
        """What was spent or set aside since a time, rounded down as in Cap; by one tenant if named."""
        return _spent(self._db.read(), unit, since_s, tenant, now_s)


def _spent(connection: Connection, unit: str, since_s: float, tenant: str | None, now_s: float) -> float:
    span_s = _MOMENT_S if since_s > now_s - _KEPT_S[_MOMENT_S] else DAY_S
    of_tenant = "" if tenant is None else " AND tenant = :tenant"
    found = connection.execute(
        f"SELECT coalesce(sum(amount), 0.0) FROM spending WHERE unit = :unit AND span_s = :span{of_tenant}"  # noqa: S608
        " AND start_s >= :since",
        {"unit": unit, "span": span_s, "tenant": tenant, "since": since_s // span_s * span_s},
    ).fetchone()
    return max(0.0, float(found[0]))


def _add(connection: Connection, tenant: str, unit: str, amount: float, at_s: float) -> None:
    for span_s, kept_s in _KEPT_S.items():
        start_s = int(at_s) // span_s * span_s
        connection.execute(
            "INSERT INTO spending VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (unit, span_s, tenant, start_s) DO UPDATE"
            " SET amount = max(0.0, spending.amount + excluded.amount)",
            (unit, span_s, tenant, start_s, amount),
        )
        connection.execute(
            "DELETE FROM spending WHERE unit = ? AND span_s = ? AND tenant = ? AND start_s < ?",
            (unit, span_s, tenant, start_s - kept_s),
        )
