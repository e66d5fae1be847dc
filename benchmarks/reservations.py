"""What reserving a part of a budget costs: `python -m benchmarks.reservations`.

Two ways to keep a budget that several workers share: a conditional update by the store's writer for each request, or a lease
of it that is handed out in memory (gateway/limits/ledger.py). SQLite; CPU of all threads, and how long a request waits.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from gateway.limits.ledger import Ledger
from store.database import Connection
from store.people.allowance import USD, Window
from store.people.allowances import Allowances
from store.sqlite.database import Database

_REQUESTS = 8000
_ENDS_S = 4e9
_PLENTY = 10**15
_NEED = 1000
_SPENT = 900
_BEGIN = (
    "INSERT INTO allowances (scope, kind, start_s, ends_s, spent, estimated, leased)"
    " VALUES ('key:a', 'usd', 0, 4e9, 0, 0, 0)"
)
_UPDATE = "UPDATE allowances SET spent = spent + ? WHERE scope = 'key:a' AND kind = 'usd' AND spent + ? <= ?"


def _reserve(connection: Connection) -> int:
    return connection.execute(_UPDATE, (_NEED, _NEED, _PLENTY)).rowcount


async def _by_updates(db: Database, at_once: int) -> list[float]:
    """How long each request waited for its update, in seconds; `at_once` of them under way."""
    waits: list[float] = []

    async def requests() -> None:
        for _ in range(_REQUESTS // at_once):
            began_s = time.perf_counter()
            await asyncio.wrap_future(db.write(_reserve))
            waits.append(time.perf_counter() - began_s)

    await asyncio.gather(*(requests() for _ in range(at_once)))
    return waits


async def _by_leases(ledger: Ledger) -> list[float]:
    """The same for reservations of a lease, each settled at once."""
    purse = await ledger.open(Window("key:b", f"{USD}day", 0, _ENDS_S), _PLENTY)
    waits: list[float] = []
    for _ in range(_REQUESTS):
        began_s = time.perf_counter()
        if not ledger.take(purse, _NEED):
            await ledger.draw(purse, _NEED)
        waits.append(time.perf_counter() - began_s)
        ledger.settle(purse, _NEED, _SPENT)
    return waits


def _told(way: str, cpu_s: float, waits: list[float]) -> str:
    waits_ms = [1000 * wait for wait in waits]
    p99_ms = statistics.quantiles(waits_ms, n=100)[98]
    cpu_ms = 1000 * cpu_s / len(waits)
    return f"{way}: {cpu_ms:.4f} ms of CPU, waits {statistics.median(waits_ms):.4f} ms (p99 {p99_ms:.3f})"


async def _main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        db = Database.open(Path(folder) / "understudy.db")
        ledger = Ledger(Allowances(db), Path(folder) / "limits", workers=2)
        ledger.start()
        try:
            db.write(lambda c: c.execute(_BEGIN)).result()
            for at_once in (1, 16, 64):
                cpu_s = time.process_time()
                waits = await _by_updates(db, at_once)
                print(_told(f"an update, {at_once} at once", time.process_time() - cpu_s, waits))
            cpu_s = time.process_time()
            waits = await _by_leases(ledger)
            print(_told("a lease", time.process_time() - cpu_s, waits))
        finally:
            await ledger.aclose()
            db.close()


def main() -> None:
    """Prints a line per way."""
    asyncio.run(_main())


if __name__ == "__main__":
    main()
