"""How many requests are in flight, and how far they are recorded, over all workers on a database: a row per worker.

For processes on several machines. Those of one folder read each other's files instead, which is quicker: see
store.jobs.live_load. All by the database's clock.
"""

from __future__ import annotations

import time
from concurrent.futures import Future

from store.database import Connection, Database
from store.jobs.live_load import LiveLoad

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

    def say(self, worker: str, in_flight: int, recorded_to_s: float) -> Future[None]:
        """Put a worker's row in place of its last one; rows of workers long gone are dropped. Raises StoreBusy.

        `recorded_to_s`: whatever the worker had answered by then (time.monotonic) is committed, or never will be.
        """

        def write(connection: Connection) -> None:
            behind_s = max(0.0, time.monotonic() - recorded_to_s) + _ON_ITS_WAY_S
            connection.execute(_PUT, (worker, in_flight, behind_s))
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
    "INSERT INTO worker_loads (worker, at_s, in_flight, recorded_to_s) VALUES (?, now_s(), ?, now_s() - ?)"
    " ON CONFLICT (worker) DO UPDATE SET at_s = excluded.at_s, in_flight = excluded.in_flight,"
    " recorded_to_s = excluded.recorded_to_s"
)
