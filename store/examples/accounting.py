"""The accounts of examples: uses, gain and judgements, counted in memory at once and written later, in batches.

The arithmetic stands in pure functions; the ledger collects increments until it is told to write them. Knows no text.
"""

from __future__ import annotations

import heapq
import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from store.database import Connection, Database

DECAY_PER_HOUR = 0.9
DECAY_RATE_PER_S = -math.log(DECAY_PER_HOUR) / 3600.0

_BATCH_EXAMPLES = 500
_ACCOUNTS_AT_ONCE = 20_000


def decayed(value: float, as_of_s: float, now_s: float) -> float:
    """A value that was true at `as_of_s`, at `now_s`: times 0.9 per hour between (SPEC §2; EchoLM §4.3.2)."""
    return value * math.exp(-DECAY_RATE_PER_S * (now_s - as_of_s))


def accumulated(value: float, as_of_s: float, amount: float, at_s: float) -> tuple[float, float]:
    """Add `amount`, which came at `at_s`, to a decaying sum; gives the sum and the time at which it is true.

    The time never goes back, and the order in which amounts arrive does not matter: a sum of 0.9^(age in hours) x
    amount is the same whoever adds first (forward decay: Cormode et al., "Forward Decay", ICDE 2009).
    """
    if not value:
        return amount, at_s
    until_s = max(as_of_s, at_s)
    return decayed(value, as_of_s, until_s) + decayed(amount, at_s, until_s), until_s


def worth(
    used: float, used_at_s: float, seen_at_s: float, quality_sum: float = 0.0, quality_count: int = 0
) -> float:
    """The logarithm of an example's utility, referred to 1970, so that it need not be computed anew as time passes.

    Utility at time t = (decayed use + one decayed use for having been seen, when added or last merged) x quality, where
    quality = (sum of judgements + 1) / (count + 2), hence 1/2 for what nobody judged. All examples decay alike,
    so their order is the same at any t; exp(worth - DECAY_RATE_PER_S x t) is the utility at t.
    """
    until_s = max(used_at_s, seen_at_s) if used else seen_at_s
    weight = decayed(1.0, seen_at_s, until_s) + (decayed(used, used_at_s, until_s) if used else 0.0)
    quality = (quality_sum + 1.0) / (quality_count + 2.0)
    return math.log(weight) + math.log(quality) + DECAY_RATE_PER_S * until_s


@dataclass(frozen=True, slots=True)
class GainRow:
    """What an example's account says, as of one moment."""

    id: int
    gain: float
    """G(e), decayed to that moment; never below 0."""
    used: float
    """Decayed uses."""
    kind: str
    pinned: bool
    created_at_s: float
    question_characters: int
    completion_tokens: int


@dataclass(slots=True)
class _Noted:
    since_s: float
    """When it was first noted since the last flush."""
    uses: int = 0
    last_used_at_s: float = 0.0
    used: float = 0.0
    used_at_s: float = 0.0
    gain: float = 0.0
    gain_at_s: float = 0.0
    quality_sum: float = 0.0
    quality_count: int = 0


class Ledger:
    """What one process noted since it last wrote. Every method may be called from any thread and touches no disk.

    Several processes may write for the same example: what is written are increments, added up inside the write
    transaction. What was noted and not yet flushed is lost with the process: at most what one flush interval holds.
    """

    def __init__(self, db: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._noted: dict[int, _Noted] = {}
        self._lock = threading.Lock()

    def note_use(self, ids: Sequence[int]) -> None:
        """These examples were sent to an engine just now."""
        now_s = self._clock()
        with self._lock:
            for id in ids:
                noted = self._of(id)
                noted.uses += 1
                noted.last_used_at_s = max(noted.last_used_at_s, now_s)
                noted.used, noted.used_at_s = accumulated(noted.used, noted.used_at_s, 1.0, now_s)

    def note_gain(self, ids: Sequence[int], amount: float) -> None:
        """Add to the gain of these examples: what a use of them left to improve, or a correction (learning.replay.gain)."""
        now_s = self._clock()
        with self._lock:
            for id in ids:
                noted = self._of(id)
                noted.gain, noted.gain_at_s = accumulated(noted.gain, noted.gain_at_s, amount, now_s)

    def note_quality(self, id: int, quality: float) -> None:
        """An example's own answer was judged, 0 to 1. Raises ValueError outside."""
        if not 0.0 <= quality <= 1.0:
            raise ValueError(f"a normalised quality of {quality}: between 0 and 1 is right")
        with self._lock:
            noted = self._of(id)
            noted.quality_sum += quality
            noted.quality_count += 1

    def flush(self) -> list[Future[None]]:
        """Hand what was noted to the writer, in jobs of bounded size; empty if there is nothing.

        Raises StoreBusy or StoreClosed; what could not be handed over is kept for the next flush.
        """
        with self._lock:
            noted, self._noted = self._noted, {}
        written: list[Future[None]] = []
        items = list(noted.items())
        for start in range(0, len(items), _BATCH_EXAMPLES):
            batch = items[start : start + _BATCH_EXAMPLES]
            try:
                written.append(self._db.write(partial(self._add, batch)))
            except BaseException:
                self._take_back(items[start:])
                raise
        return written

    def highest_gains(self, tenant: str, now_s: float, limit: int, *, least: float = 1e-6) -> list[GainRow]:
        """Up to `limit` examples of the tenant with a gain of at least `least`, highest first.

        Blocks: reads every account of the tenant, about a second per million; never for the event loop.
        """
        best: list[tuple[float, int]] = []
        after = 0
        while True:
            rows = (
                self._db.read()
                .execute(
                    "SELECT id, gain, gain_at_s FROM example_accounts WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?",
                    (tenant, after, _ACCOUNTS_AT_ONCE),
                )
                .fetchall()
            )
            if not rows:
                break
            after = rows[-1][0]
            best += [
                (worth, id)
                for id, gain, at_s in rows
                if gain > 0 and (worth := decayed(gain, at_s, now_s)) >= least
            ]
            best = heapq.nlargest(limit, best)
        return self.gains_of(tenant, [id for _, id in best], now_s)

    def gains_of(self, tenant: str, ids: list[int], now_s: float) -> list[GainRow]:
        """The rows of these examples of the tenant's, in the order asked for; what is gone is left out."""
        found: dict[int, GainRow] = {}
        for start in range(0, len(ids), 500):
            batch = ids[start : start + 500]
            marks = ",".join("?" * len(batch))
            rows = self._db.read().execute(
                "SELECT a.id, a.gain, a.gain_at_s, a.used, a.used_at_s, a.kind, a.pinned, e.created_at_s,"  # noqa: S608
                " length(e.question), e.completion_tokens FROM example_accounts a JOIN examples e ON e.id = a.id"
                f" WHERE a.id IN ({marks}) AND +a.tenant = ?",
                (*batch, tenant),
            )
            for (
                id,
                gain,
                gain_at_s,
                used,
                used_at_s,
                kind,
                pinned,
                created_at_s,
                characters,
                tokens,
            ) in rows.fetchall():
                found[id] = GainRow(
                    id,
                    max(0.0, decayed(gain, gain_at_s, now_s)),
                    decayed(used, used_at_s, now_s),
                    kind,
                    bool(pinned),
                    created_at_s,
                    characters,
                    tokens,
                )
        return [found[id] for id in ids if id in found]

    def _add(self, batch: Sequence[tuple[int, _Noted]], connection: Connection) -> None:
        self._db.hold(connection, "examples")
        _write(connection, batch)

    def _of(self, id: int) -> _Noted:
        noted = self._noted.get(id)
        if noted is None:
            noted = self._noted[id] = _Noted(self._clock())
        return noted

    def _take_back(self, items: Sequence[tuple[int, _Noted]]) -> None:
        with self._lock:
            for id, old in items:
                new = self._of(id)
                new.since_s = min(new.since_s, old.since_s)
                new.uses += old.uses
                new.last_used_at_s = max(new.last_used_at_s, old.last_used_at_s)
                new.used, new.used_at_s = accumulated(new.used, new.used_at_s, old.used, old.used_at_s)
                new.gain, new.gain_at_s = accumulated(new.gain, new.gain_at_s, old.gain, old.gain_at_s)
                new.quality_sum += old.quality_sum
                new.quality_count += old.quality_count


def _write(connection: Connection, batch: Sequence[tuple[int, _Noted]]) -> None:
    increments = dict(batch)
    rows = connection.execute(
        "SELECT id, used, used_at_s, gain, gain_at_s, quality_sum, quality_count, seen_at_s, size_bytes, corrected_at_s"
        " FROM example_accounts WHERE id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))",
        (json.dumps(list(increments)),),
    ).fetchall()
    written = []
    # In the order of keys: two processes that update the same rows wait for each other, but in no circle.
    for row in sorted(rows):
        (
            id,
            used,
            used_at_s,
            gained,
            gain_at_s,
            quality_sum,
            quality_count,
            seen_at_s,
            size_bytes,
            corrected_at_s,
        ) = row
        noted = increments[id]
        if noted.since_s < corrected_at_s:
            # It was noted of the answer that the example had before.
            noted = replace(noted, gain=0.0, quality_sum=0.0, quality_count=0)
        if noted.used:
            used, used_at_s = accumulated(used, used_at_s, noted.used, noted.used_at_s)
        if noted.gain:
            gained, gain_at_s = accumulated(gained, gain_at_s, noted.gain, noted.gain_at_s)
        quality_sum += noted.quality_sum
        quality_count += noted.quality_count
        value = worth(used, used_at_s, seen_at_s, quality_sum, quality_count)
        written.append(
            (
                noted.uses,
                noted.last_used_at_s or None,
                used,
                used_at_s,
                gained,
                gain_at_s,
                quality_sum,
                quality_count,
                value,
                value - math.log(size_bytes),
                id,
            )
        )
    connection.executemany(
        "UPDATE example_accounts SET uses = uses + ?,"
        " last_used_at_s = nullif(max(coalesce(last_used_at_s, 0), coalesce(?, 0)), 0),"
        " used = ?, used_at_s = ?, gain = ?, gain_at_s = ?, quality_sum = ?, quality_count = ?,"
        " worth = ?, worth_per_byte = ? WHERE id = ?",
        written,
    )
