"""How all workers on a database stand: requests in flight, how far they are recorded, capacity. A row per worker.

For processes on several machines. Those of one folder read each other's files instead, which is quicker: see
store.jobs.live_load. All by the database's clock.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import Future

from store.database import Connection, Database
from store.jobs.live_load import LiveLoad, Standing

SAY_EVERY_S = 2.0
"""How often a worker is to say how it stands."""
_SILENT_S = 3 * SAY_EVERY_S
_BELIEVED_S = 15.0
_ON_ITS_WAY_S = 0.5
"""How long a row may be under way to the database at most, for what it says to be true."""


class WorkerLoads:
    """What workers say of their load."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def say(self, worker: str, standing: Standing) -> Future[None]:
        """Put a worker's row in place of its last one; rows of workers long gone are dropped. Raises StoreBusy."""

        def write(connection: Connection) -> None:
            in_flight, recorded_to_s, *more, shed = standing
            behind_s = max(0.0, time.monotonic() - recorded_to_s) + _ON_ITS_WAY_S
            connection.execute(_PUT, (worker, in_flight, behind_s, *more, json.dumps(shed)))
            connection.execute("DELETE FROM worker_loads WHERE at_s < now_s() - ?", (_BELIEVED_S,))

        return self._db.write(write)

    def gone(self, worker: str) -> Future[None]:
        """Delete the row of a worker that stops."""

        def delete(connection: Connection) -> None:
            connection.execute("DELETE FROM worker_loads WHERE worker = ?", (worker,))

        return self._db.write(delete)

    def now(self) -> LiveLoad:
        """The load over all workers that said something lately. Blocks. Raises what reading raises."""
        rows = [(in_flight, age_s) for in_flight, age_s, _ in self._rows()]
        silent = sum(age_s > _SILENT_S for _, age_s in rows)
        return LiveLoad(len(rows), sum(in_flight for in_flight, _ in rows), silent)

    def recorded_to_s(self) -> float:
        """Whatever any of them had answered by then (time.monotonic, here) is committed. Blocks, raises as reads do."""
        asked_s = time.monotonic()
        return asked_s - max((behind_s for _, _, behind_s in self._rows()), default=0.0)

    def standings(self) -> list[Standing]:
        """How each worker stands that said something lately. Blocks. Raises what reading raises."""
        rows = (
            self._db.read()
            .execute(
                "SELECT in_flight, core_share, capacity_per_s, shed_level, shed FROM worker_loads"
                " WHERE at_s > now_s() - ? ORDER BY worker",
                (_BELIEVED_S,),
            )
            .fetchall()
        )
        return [
            Standing(in_flight, 0.0, share, capacity, level, tuple(json.loads(shed)))
            for in_flight, share, capacity, level, shed in rows
        ]

    def _rows(self) -> list[tuple[int, float, float]]:
        """(in flight, seconds since it was said, seconds since which not all is recorded) of each."""
        return (
            self._db.read()
            .execute(
                "SELECT in_flight, now_s() - at_s, now_s() - recorded_to_s FROM worker_loads WHERE at_s > now_s() - ?"
                " ORDER BY worker",
                (_BELIEVED_S,),
            )
            .fetchall()
        )


_PUT = (
    "INSERT INTO worker_loads"
    " (worker, at_s, in_flight, recorded_to_s, core_share, capacity_per_s, shed_level, shed)"
    " VALUES (?, now_s(), ?, now_s() - ?, ?, ?, ?, ?)"
    " ON CONFLICT (worker) DO UPDATE SET at_s = excluded.at_s, in_flight = excluded.in_flight,"
    " recorded_to_s = excluded.recorded_to_s, core_share = excluded.core_share,"
    " capacity_per_s = excluded.capacity_per_s, shed_level = excluded.shed_level, shed = excluded.shed"
)
