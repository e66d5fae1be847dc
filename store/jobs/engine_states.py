"""The state of each engine as each worker reports it, the engines an operator has drained, and operators' tests of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import astuple, dataclass, fields

from store.database import Connection, Database
from store.generation import Generation
from store.inserting import adding, replacing
from store.sums import DAY_S

_BELIEVED_S = 15.0
_GENERATION = "drained_engines"
UNMERGEABLE = "unmergeable:"
"""How the kind of an error begins that is an answer which could not be merged; the member's name follows."""
_ERRORS_OF_S = 600
_ERRORS_KEPT_S = 8 * DAY_S


@dataclass(frozen=True, slots=True)
class EngineStateRow:
    """One engine, as one worker sees it."""

    worker: str
    engine: str
    at_s: float
    in_flight: int
    queued: int
    capacity: int | None
    utilisation: float
    """How full it is: 0 idle, 1 at capacity, more when requests queue."""
    breaker: str
    """closed, open or probing."""
    drained: bool
    asked: int
    """Tries since the worker started, and those that failed."""
    failed: int
    first_chunk_s: float | None
    answer_s: float | None
    kv_use: float | None
    limit_left: float | None
    replica: str = ""
    """Which of the engine's base URLs, as host:port; empty where it has one."""
    state: str = "unknown"
    """up, limited, refused, down, drained or unknown, since `since_s` (Unix time)."""
    since_s: float | None = None
    error: str = ""
    """Its latest failure in words, keys masked, and when it was."""
    error_at_s: float | None = None
    probed_at_s: float | None = None
    """When its latest health check ended (Unix time); None before the first."""
    probe_ms: float | None = None
    """How long that took."""
    probe_error: str = ""
    """Why that was bad; empty: it was good."""


@dataclass(frozen=True, slots=True)
class Drained:
    """An engine that nothing new is asked of, since when, and who wanted it."""

    engine: str
    replica: str
    """Empty: all of them."""
    since_s: float
    by_user: str
    reason: str
    stand_in: str = ""
    """The engine that is asked where no other one of the model answers; empty: none."""


@dataclass(frozen=True, slots=True)
class EngineTest:
    """What came of an operator's latest test of an engine, or of one of its replicas."""

    engine: str
    replica: str
    at_s: float
    by_user: str
    good: bool
    said: str
    """In words; no content, no key."""
    health_ms: float | None
    """How long the health check took; None where none was made."""
    answer_ms: float | None
    """How long an answer took; None where none came."""
    cost_usd: float


class EngineStates:
    """Shares engine states among workers and the admin pages."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._generation = Generation(db, _GENERATION, check_every_s=0.5)

    # ---- what workers report

    def say(self, rows: Sequence[EngineStateRow]) -> Future[None]:
        """Put a worker's rows in place of its last ones; rows of workers long gone are dropped. Raises StoreBusy."""
        values = [astuple(row) for row in rows]
        old_s = time.time() - 60 * _BELIEVED_S

        def write(connection: Connection) -> None:
            connection.executemany(_PUT.sql, values)
            connection.execute("DELETE FROM engine_states WHERE at_s < ?", (old_s,))

        return self._db.write(write)

    def gone(self, worker: str) -> Future[None]:
        """Delete the rows of a worker that stops."""

        def delete(connection: Connection) -> None:
            connection.execute("DELETE FROM engine_states WHERE worker = ?", (worker,))

        return self._db.write(delete)

    def now(self, now_s: float) -> list[EngineStateRow]:
        """What workers reported within the last seconds, by engine."""
        rows = self._db.read().execute(
            f"SELECT {', '.join(_COLUMNS)} FROM engine_states"  # noqa: S608 - constants
            " WHERE at_s > ? ORDER BY engine, replica, worker",
            (now_s - _BELIEVED_S,),
        )
        found = [dict(zip(_COLUMNS, row, strict=True)) for row in rows.fetchall()]
        return [EngineStateRow(**row | {"drained": bool(row["drained"])}) for row in found]

    def add_errors(self, errors: Mapping[tuple[str, str], int], at_s: float) -> Future[None]:
        """Count failures by (engine, kind) that nobody has counted yet; those of a week ago go. Raises StoreBusy."""
        start_s = int(at_s) // _ERRORS_OF_S * _ERRORS_OF_S
        # In the order of keys: other workers add to the same rows.
        values = [(engine, start_s, kind, errors[engine, kind]) for engine, kind in sorted(errors)]

        def write(connection: Connection) -> None:
            connection.executemany(_ADD_ERRORS.sql, values)
            connection.execute("DELETE FROM engine_errors WHERE start_s < ?", (start_s - _ERRORS_KEPT_S,))

        return self._db.write(write)

    def errors(self, since_s: float) -> dict[str, dict[str, int]]:
        """Failures since a time, rounded down to ten minutes, by engine and kind, the most frequent first."""
        rows = self._db.read().execute(
            "SELECT engine, kind, sum(errors) FROM engine_errors WHERE start_s >= ?"
            " GROUP BY engine, kind ORDER BY engine, 3 DESC, kind",
            (int(since_s) // _ERRORS_OF_S * _ERRORS_OF_S,),
        )
        found: dict[str, dict[str, int]] = {}
        for engine, kind, errors in rows.fetchall():
            found.setdefault(engine, {})[kind] = int(errors)
        return found

    # ---- what an operator wants

    def drain(
        self, engine: str, by_user: str, reason: str, replica: str = "", stand_in: str = ""
    ) -> Future[bool]:
        """Have nothing new asked of an engine, until `restore`; False if it was drained already, with this stand-in."""
        now_s = time.time()

        def insert(connection: Connection) -> bool:
            self._generation.bump(connection)
            return (
                connection.execute(
                    "INSERT INTO drained_engines (engine, replica, since_s, by_user, reason, stand_in)"
                    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (engine, replica) DO UPDATE"
                    " SET stand_in = excluded.stand_in WHERE drained_engines.stand_in <> excluded.stand_in",
                    (engine, replica, now_s, by_user, reason[:200], stand_in),
                ).rowcount
                == 1
            )

        return self._db.write(insert)

    def restore(self, engine: str, replica: str = "") -> Future[bool]:
        """Let it be asked again, with all its replicas where none is named; False if it was not drained."""

        def delete(connection: Connection) -> bool:
            self._generation.bump(connection)
            deleted = connection.execute(
                "DELETE FROM drained_engines WHERE engine = ? AND ? IN ('', replica)", (engine, replica)
            )
            return deleted.rowcount > 0

        return self._db.write(delete)

    def drained(self) -> list[Drained]:
        """Every drained engine, by name; also those the configuration does not name any more."""
        rows = self._db.read().execute(
            "SELECT engine, replica, since_s, by_user, reason, stand_in FROM drained_engines ORDER BY engine, replica"
        )
        return [Drained(*row) for row in rows.fetchall()]

    # ---- what an operator tried

    def note_tests(self, tests: Sequence[EngineTest]) -> Future[None]:
        """Keep what came of tests, each in the place of the one before of the same engine and replica. Raises StoreBusy."""
        values = [astuple(test) for test in tests]

        def write(connection: Connection) -> None:
            connection.executemany(_PUT_TEST.sql, values)

        return self._db.write(write)

    def tests(self) -> list[EngineTest]:
        """The latest test of each engine and replica, by name."""
        rows = self._db.read().execute(
            f"SELECT {', '.join(_OF_TEST)} FROM engine_tests ORDER BY engine, replica"  # noqa: S608 - constants
        )
        found = [dict(zip(_OF_TEST, row, strict=True)) for row in rows.fetchall()]
        return [EngineTest(**row | {"good": bool(row["good"])}) for row in found]

    def drained_generation(self) -> int:
        """A number that differs whenever `drained` may have changed; almost free."""
        return self._generation.value()


_COLUMNS = tuple(field.name for field in fields(EngineStateRow))
_PUT = replacing("engine_states", ", ".join(_COLUMNS), key="worker, engine, replica")
_ADD_ERRORS = adding("engine_errors", "engine, start_s, kind", "errors")
_OF_TEST = tuple(field.name for field in fields(EngineTest))
_PUT_TEST = replacing("engine_tests", ", ".join(_OF_TEST), key="engine, replica")
