"""Allowances: what may be spent of a limit within a window, shared by workers that each hold a part of what is left.

A worker leases a part by one conditional UPDATE, hands it out in memory, and books what was really spent. Amounts are
integers: nanodollars, tokens, requests. What a dead worker had handed out counts as spent, flagged as estimated; the rest
returns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from store.database import Connection, Database
from store.people.allowance import CONCURRENCY, Booking, Held, Lease, Standing, Window, Worker
from store.sums import DAY_S, HOUR_S

_WANTED_S = 2.0
_ANY = 2**62


class NoSuchWorker(Exception):
    """This worker's leases were taken for a dead one's."""


class Allowances:
    """The account of all windows. Safe to use from any thread."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._wanted_at: bytes | int | None = None

    def join(self, worker: Worker) -> Future[None]:
        """Make a new worker known, which may then lease."""

        def write(connection: Connection) -> None:
            connection.execute(_ADD_WORKER, worker)

        return self._db.write(write)

    def lease(
        self,
        worker: Worker,
        slot: int,
        window: Window,
        *,
        limit: int,
        need: int,
        wish: int,
        parts: int,
        now_s: float,
        rolls_s: int = 0,
        largest: int = _ANY,
    ) -> Future[Lease]:
        """Grant at least `need`, or nothing: up to `wish`, or a `parts`-th of what is left where that is more.

        `largest`: so much is enough of such a part, as all of it counts as spent when the worker is lost with its machine.

        `slot`: the worker's journal keeps this lease there. `rolls_s`: the window is so long and slides: what was spent in
        the one before weighs by the share of it that is younger than a window. Whoever is refused only because of what
        other workers hold makes it known to them (`wanted`). The future raises NoSuchWorker.
        """

        def write(connection: Connection) -> Lease:
            self._check_worker(connection, worker)
            connection.execute(_BEGIN_WINDOW, (*window, 0, 0, 0))
            most = limit - _before(connection, window, rolls_s, now_s)
            spent, leased = _state(connection, window)
            left = most - spent - leased
            for amount in (min(left, max(need, wish, min(largest, left // max(1, parts)))), need):
                if amount >= need and _granted(connection, window, amount, most):
                    connection.execute(_ADD_LEASE, (worker.id, *window[:3], slot, amount))
                    return Lease(amount, spent, leased + amount, most)
            if spent + need <= most:
                connection.execute(_WANT, (_WANTED_S, *window[:3]))
                self._db.tell(connection)
            return Lease(0, spent, leased, most)

        return self._db.write(write)

    def book(
        self, worker: Worker, bookings: Sequence[Booking], *, patient: bool = False
    ) -> Future[list[tuple[int, int]]]:
        """Book what was spent and what is given back; gives what is spent and leased of each window then.

        `patient`: no request waits for what is given back. The future raises NoSuchWorker where the leases are gone.
        """

        def write(connection: Connection) -> list[tuple[int, int]]:
            self._check_worker(connection, worker)
            states = {}
            # In one order, whoever books: two that wait for each other's rows would both have to begin again.
            for window, settled, estimated, granted, ends in sorted(bookings, key=lambda b: b.window):
                connection.execute(_BOOK_LEASE, (granted, settled, worker.id, *window[:3]))
                connection.execute(_BOOK, (settled, estimated, granted - settled, *window[:3]))
                if ends:
                    row = connection.execute(_HELD, (worker.id, *window[:3])).fetchone()
                    connection.execute(_BOOK, (0, 0, -row[0] if row is not None else 0, *window[:3]))
                    connection.execute(_END_LEASE, (worker.id, *window[:3]))
                states[window] = _state(connection, window)
            return [states[booking.window] for booking in bookings]

        return self._db.write(write, patient=patient)

    def wanted(self) -> list[tuple[str, str, int]]:
        """(scope, kind, start) of what others need who were refused a moment ago; nothing new where nobody wrote since."""
        version = self._db.data_version()
        if version == self._wanted_at:
            return []
        self._wanted_at = version
        return self._db.read().execute(_WANTED).fetchall()

    def renew(self, worker: Worker) -> Future[bool]:
        """Say that the worker lives for `left_s`; False where it is not known (it holds nothing)."""
        return self._db.write(
            lambda c: c.execute(_RENEW, (worker.left_s, worker.id)).rowcount > 0, patient=True
        )

    def workers(self) -> list[Worker]:
        """Those that hold something, or did when they died."""
        return [Worker(*row) for row in self._db.read().execute(_WORKERS).fetchall()]

    def settle_dead(self, worker_id: str, journal: Mapping[int, Held] | None) -> Future[int]:
        """Book what a dead worker spent and had handed out as spent, and return the rest of its leases.

        `journal`: what it kept by slot; None where that cannot be known: then all it held counts as spent. Gives how many
        leases it had; 0 where somebody was faster.
        """

        def write(connection: Connection) -> int:
            self._db.hold(connection, worker_id)
            leases = connection.execute(_LEASES_OF, (worker_id,)).fetchall()
            for scope, kind, start_s, slot, granted, settled in leases:
                held = granted - settled
                spent = estimated = held
                if journal is not None:
                    kept = journal.get(slot, Held(settled, 0, 0))
                    spent = max(0, kept.settled - settled) + kept.reserved
                    estimated = min(spent, kept.estimated + kept.reserved)
                if kind == CONCURRENCY:
                    spent = estimated = 0
                connection.execute(_BOOK, (spent, estimated, -held, scope, kind, start_s))
            connection.execute(_END_WORKER, (worker_id,))
            return len(leases)

        return self._db.write(write)

    def leave(self, worker: Worker) -> Future[int]:
        """The worker ends and has booked everything: what it still holds returns."""
        return self.settle_dead(worker.id, {})

    def standings(self, scope: str, now_s: float) -> list[Standing]:
        """How a scope's windows stand that have not ended, by kind. Blocks for a read."""
        rows = self._db.read().execute(_STANDINGS, (scope, now_s)).fetchall()
        return [Standing(Window(*row[:4]), *row[4:]) for row in rows]

    def trim(self, now_s: float) -> Future[int]:
        """Delete windows that ended long ago and of which nobody holds anything. Gives how many went.

        Of a minute after an hour, of an end user after five weeks, of anybody else after 400 days.
        """

        def write(connection: Connection) -> int:
            return (
                connection.execute(_TRIM_MINUTES, (now_s - HOUR_S,)).rowcount
                + connection.execute(_TRIM_USERS, (now_s - 35 * DAY_S,)).rowcount
                + connection.execute(_TRIM, (now_s - 400 * DAY_S,)).rowcount
            )

        return self._db.write(write, patient=True)

    def _check_worker(self, connection: Connection, worker: Worker) -> None:
        """Nobody takes its leases for a dead one's until the job is committed."""
        self._db.hold(connection, worker.id)
        if connection.execute(_IS_WORKER, (worker.id,)).fetchone() is None:
            raise NoSuchWorker(worker.id)


def _granted(connection: Connection, window: Window, amount: int, most: int) -> bool:
    """Take `amount` of what is left, if there is so much: one conditional statement, whoever else writes."""
    return connection.execute(_TAKE, (amount, *window[:3], amount, most)).rowcount > 0


def _state(connection: Connection, window: Window) -> tuple[int, int]:
    """What is spent and leased of a window; nothing where it was over for so long that it was dropped."""
    row: tuple[int, int] | None = connection.execute(_STATE, window[:3]).fetchone()
    return row or (0, 0)


def _before(connection: Connection, window: Window, rolls_s: int, now_s: float) -> int:
    """What the window before still weighs: its count by the share of it within the last `rolls_s` seconds."""
    if not rolls_s:
        return 0
    row = connection.execute(_STATE, (window.scope, window.kind, window.start_s - rolls_s)).fetchone()
    share = min(1.0, max(0.0, (window.ends_s - now_s) / rolls_s))
    return math.ceil(sum(row) * share) if row is not None else 0


_BEGIN_WINDOW = (
    "INSERT INTO allowances (scope, kind, start_s, ends_s, spent, estimated, leased) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (scope, kind, start_s) DO NOTHING"
)
_STATE = "SELECT spent, leased FROM allowances WHERE scope = ? AND kind = ? AND start_s = ?"
_TAKE = (
    "UPDATE allowances SET leased = leased + ?"
    " WHERE scope = ? AND kind = ? AND start_s = ? AND spent + leased + ? <= ?"
)
_WANT = "UPDATE allowances SET wanted_until_s = now_s() + ? WHERE scope = ? AND kind = ? AND start_s = ?"
_WANTED = "SELECT scope, kind, start_s FROM allowances WHERE wanted_until_s > 0 AND wanted_until_s > now_s()"
_ADD_WORKER = "INSERT INTO allowance_workers (id, boot_id, until_s) VALUES (?, ?, now_s() + ?) ON CONFLICT (id) DO NOTHING"
_ADD_LEASE = (
    "INSERT INTO allowance_leases (worker, scope, kind, start_s, slot, granted, settled) VALUES (?, ?, ?, ?, ?, ?, 0)"
    " ON CONFLICT (worker, scope, kind, start_s)"
    " DO UPDATE SET granted = allowance_leases.granted + excluded.granted"
)
_IS_WORKER = "SELECT 1 FROM allowance_workers WHERE id = ?"
_BOOK_LEASE = (
    "UPDATE allowance_leases SET granted = granted + ?, settled = settled + ?"
    " WHERE worker = ? AND scope = ? AND kind = ? AND start_s = ?"
)
_BOOK = (
    "UPDATE allowances SET spent = spent + ?, estimated = estimated + ?, leased = leased + ?"
    " WHERE scope = ? AND kind = ? AND start_s = ?"
)
_HELD = "SELECT granted - settled FROM allowance_leases WHERE worker = ? AND scope = ? AND kind = ? AND start_s = ?"
_END_LEASE = "DELETE FROM allowance_leases WHERE worker = ? AND scope = ? AND kind = ? AND start_s = ?"
_RENEW = "UPDATE allowance_workers SET until_s = now_s() + ? WHERE id = ?"
_WORKERS = "SELECT id, boot_id, until_s - now_s() FROM allowance_workers ORDER BY id"
_LEASES_OF = (
    "SELECT scope, kind, start_s, slot, granted, settled FROM allowance_leases WHERE worker = ?"
    " ORDER BY scope, kind, start_s"
)
_END_WORKER = "DELETE FROM allowance_workers WHERE id = ?"
_STANDINGS = (
    "SELECT scope, kind, start_s, ends_s, spent, estimated, leased FROM allowances"
    " WHERE scope = ? AND ends_s > ? ORDER BY kind, start_s"
)
_TRIM = "DELETE FROM allowances WHERE ends_s < ? AND leased = 0"
_TRIM_MINUTES = "DELETE FROM allowances WHERE ends_s < ? AND leased = 0 AND kind NOT LIKE 'usd:%'"
_TRIM_USERS = "DELETE FROM allowances WHERE ends_s < ? AND leased = 0 AND scope LIKE 'user:%'"
