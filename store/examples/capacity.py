"""Keeps a tenant's examples within their caps, and the log of examples short. Knows nothing of when it is called.

What is worth least is evicted first. Which examples to keep under a cap on bytes is a 0/1 knapsack (weight: bytes, value:
decayed utility). It is solved greedily, least utility per byte out first, and what the last victim makes room for is put
back, most useful first. By the relaxation of Dantzig ("Discrete-Variable Extremum Problems", Operations Research 5, 1957)
the utility kept is below the best possible by less than that of the one example at which the cap cuts. Under a cap on
their number every example weighs the same, and dropping the least useful is the best possible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from store.database import Connection, Database
from store.examples import rows as example_rows
from store.records import Totals

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Item:
    """An example that may be evicted. `worth` is the logarithm of its utility: see store.examples.accounting.worth."""

    id: int
    size_bytes: int
    worth: float


@dataclass(frozen=True, slots=True)
class Evicted:
    """What was removed to make room."""

    examples: int
    size_bytes: int
    over: bool
    """The tenant is still over a cap: what is left is pinned, or demonstrations, which are never evicted."""


def victims(items: Sequence[Item], excess_bytes: int) -> list[Item]:
    """Whom to evict so that at least `excess_bytes` go. `items` come with the least utility per byte first.

    All of them, if that is not enough.
    """
    chosen: list[Item] = []
    freed_bytes = 0
    for item in items:
        if freed_bytes >= excess_bytes:
            break
        chosen.append(item)
        freed_bytes += item.size_bytes
    spare_bytes = freed_bytes - excess_bytes
    for item in sorted(chosen, key=lambda one: -one.worth):
        if item.size_bytes <= spare_bytes:
            chosen.remove(item)
            spare_bytes -= item.size_bytes
    return chosen


class Removable(Protocol):
    """A bank whose examples can be counted and removed: store.examples.bank.ExampleBank, which builds on this file."""

    def totals(self, tenant: str) -> Totals: ...

    def write_removal(self, job: Callable[[Connection], Any], *, scrub: bool = ...) -> Future[Any]: ...


def make_room(
    bank: Removable,
    tenant: str,
    *,
    max_examples: int | None = None,
    max_bytes: int | None = None,
    batch: int = _BATCH,
) -> Evicted:
    """Evict the tenant's observed, unpinned examples until both caps hold; None is no cap.

    Blocks, one transaction per `batch` examples, so that requests' writes go in between; killed between two of them
    it has done a part of the work. The texts are overwritten in the file; what the write-ahead log still holds of them
    goes with the next checkpoint. Several processes may run it at once: each transaction counts anew. Raises
    what writing raises.
    """
    examples = size_bytes = 0
    totals = bank.totals(tenant)
    while _over(totals, max_examples, max_bytes):
        # Filled anew each time the job is run, which can be more than once.
        chosen: list[Item] = []
        bank.write_removal(
            lambda connection, chosen=chosen: _evict_some(  # type: ignore[misc]
                connection, tenant, max_examples, max_bytes, batch, chosen
            ),
            scrub=False,
        ).result()
        totals = bank.totals(tenant)
        if not chosen:
            break
        examples += len(chosen)
        size_bytes += sum(item.size_bytes for item in chosen)
    return Evicted(examples, size_bytes, over=_over(totals, max_examples, max_bytes))


def _over(totals: Totals, max_examples: int | None, max_bytes: int | None) -> bool:
    return (max_bytes is not None and totals.size_bytes > max_bytes) or (
        max_examples is not None and totals.examples > max_examples
    )


def _evict_some(
    connection: Connection,
    tenant: str,
    max_examples: int | None,
    max_bytes: int | None,
    batch: int,
    chosen: list[Item],
) -> int:
    row = connection.execute(
        "SELECT examples, size_bytes FROM example_totals WHERE tenant = ?", (tenant,)
    ).fetchone()
    examples, size_bytes = row or (0, 0)
    chosen.clear()
    if max_bytes is not None and size_bytes > max_bytes:
        chosen += victims(_least(connection, _BY_BYTE, tenant, batch), size_bytes - max_bytes)
    elif max_examples is not None and examples > max_examples:
        chosen += _least(connection, _BY_WORTH, tenant, min(batch, examples - max_examples))
    return example_rows.remove(connection, tenant, [item.id for item in chosen], erase=False)


def _least(connection: Connection, query: str, tenant: str, count: int) -> list[Item]:
    return [Item(*row) for row in connection.execute(query, (tenant, count)).fetchall()]


_BY_BYTE = (
    "SELECT id, size_bytes, worth FROM example_accounts WHERE tenant = ? AND kind = 'observed' AND pinned = 0"
    " ORDER BY worth_per_byte LIMIT ?"
)
_BY_WORTH = (
    "SELECT id, size_bytes, worth FROM example_accounts WHERE tenant = ? AND kind = 'observed' AND pinned = 0"
    " ORDER BY worth LIMIT ?"
)


_Job = Callable[[Connection], int]
_DAY_S = 86_400.0
_COMPACTED_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class Compacted:
    """How many rows were dropped."""

    removals: int
    merged_requests: int


def compact(
    db: Database,
    *,
    keep_removals_s: float = 7 * _DAY_S,
    keep_requests_s: float = 30 * _DAY_S,
    batch: int = _COMPACTED_AT_ONCE,
) -> Compacted:
    """Drop removals and merged requests' ids that are older than this. Blocks; a transaction per `batch` rows.

    A snapshot older than the tenant's dropped removals is of no use any more and is rebuilt from the database when it
    is loaded, so `keep_removals_s` is how long a stopped gateway starts quickly. A request whose id was dropped
    and comes again is merged again, which counts it twice and stores nothing twice. Raises what writing raises.
    """
    now_s = time.time()
    return Compacted(
        _until_done(db, lambda c: _drop_removals(c, now_s - keep_removals_s, batch)),
        _until_done(db, lambda c: _drop_requests(c, now_s - keep_requests_s, batch)),
    )


def _until_done(db: Database, job: _Job) -> int:
    total = 0
    while dropped := db.write(job).result():
        total += dropped
    return total


def _drop_removals(connection: Connection, before_s: float, batch: int) -> int:
    rows = connection.execute(
        "SELECT seq, tenant FROM removed_examples WHERE removed_at_s < ? ORDER BY seq LIMIT ?",
        (before_s, batch),
    ).fetchall()
    up_to: dict[str, int] = {tenant: seq for seq, tenant in rows}
    connection.executemany(
        "INSERT INTO dropped_removals (tenant, up_to_seq) VALUES (?, ?)"
        " ON CONFLICT (tenant) DO UPDATE SET up_to_seq = max(dropped_removals.up_to_seq, excluded.up_to_seq)",
        up_to.items(),
    )
    connection.executemany("DELETE FROM removed_examples WHERE seq = ?", [(seq,) for seq, _ in rows])
    return len(rows)


def _drop_requests(connection: Connection, before_s: float, batch: int) -> int:
    return connection.execute(
        "DELETE FROM merged_requests WHERE (tenant, request_id) IN"
        " (SELECT tenant, request_id FROM merged_requests WHERE merged_at_s < ? LIMIT ?)",
        (before_s, batch),
    ).rowcount
