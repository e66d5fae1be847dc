"""Leases: of all processes on a database, whatever their machine, one at a time does a chore. By the database's clock.

Whoever takes a lease gets the next epoch, and all that is written for the chore checks it in the same transaction
(store.guarding). So whoever slept beyond the end of its lease, stopped or with its whole machine, writes nothing afterwards,
and learns so from LeaseOver. A lease that ran out is never renewed, only taken anew.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import structlog

from store.database import Connection, Database
from store.errors import StoreError
from store.guarding import guarded

log = structlog.get_logger(__name__)

T = TypeVar("T")

LEASE_S = 15.0
_WRITE_S = 30.0


class NotAlone(Exception):
    """Another one holds the lease."""


class LeaseOver(Exception):
    """The lease under which this was to be written is over: somebody else may be at work by now."""


class Held(NamedTuple):
    """A lease as it stands in the database."""

    name: str
    holder: str
    epoch: int
    left_s: float


class Leases:
    """Gives out leases over one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def lease(self, name: str, for_s: float = LEASE_S) -> Lease:
        """A candidate for the lease of that name, which lasts `for_s` seconds unless it is renewed. Takes nothing yet."""
        return Lease(self._db, name, for_s)

    @contextmanager
    def alone(self, name: str, for_s: float = LEASE_S) -> Iterator[Lease]:
        """Hold a lease while the block runs. Raises NotAlone at once where another process, or block, holds it. Blocks."""
        lease = self.lease(name, for_s)
        if not lease.take():
            raise NotAlone(f"another process is at it: it holds the lease '{name}'")
        try:
            with lease.holding():
                yield lease
        finally:
            lease.release()

    def held(self) -> list[Held]:
        """All that are held, by name. Blocks for a read."""
        rows = self._db.read().execute(
            "SELECT name, holder, epoch, until_s - now_s() FROM leases WHERE until_s > now_s() ORDER BY name"
        )
        return [Held(*row) for row in rows.fetchall()]


class Lease:
    """One candidate for a lease. Safe to use from any thread; what blocks does so for a read or a commit."""

    def __init__(self, db: Database, name: str, for_s: float) -> None:
        """For Leases."""
        self.name = name
        self._db = db
        self._for_s = for_s
        self._me = f"{_process(os.getpid())}/{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._epoch = 0
        """0: not held."""
        self._until_s = 0.0
        """By this machine's clock, which counts sleep: no later than by the database's."""

    def take(self) -> bool:
        """Hold it from now on; False where another one holds it. Renews it where a third of its time is over. Blocks.

        A holder on this machine whose process has ended holds it no more. Raises what reading and writing raise.
        """
        with self._lock:
            if self._epoch and self._left_s() > self._for_s * 2 / 3:
                return True
            if self._epoch and self._renewed():
                return True
            self._epoch = 0
            return self._taken()

    @contextmanager
    def holding(self) -> Iterator[None]:
        """After `take`: what the block writes is refused once the lease is over. It is renewed until the block ends.

        Does not block. Raises LeaseOver where it is not held.
        """
        epoch = self._epoch
        if not epoch:
            raise LeaseOver(f"the lease '{self.name}' is not held")
        over = threading.Event()
        threading.Thread(
            target=self._renew, args=(epoch, over), name=f"lease {self.name}", daemon=True
        ).start()
        try:
            with guarded(_Guard(self, epoch)):
                yield
        finally:
            over.set()

    def release(self) -> None:
        """Let another one take it at once; nothing where it is not held. Blocks. Logs what keeps it from being written."""
        with self._lock:
            epoch, self._epoch = self._epoch, 0
            if not epoch:
                return
            try:
                self._written(lambda connection: connection.execute(_LET_GO, (self.name, epoch)))
            except (StoreError, TimeoutError) as error:
                log.warning("lease_not_released", lease=self.name, error=error)

    def _left_s(self) -> float:
        return self._until_s - _clock_s()

    def _renew(self, epoch: int, over: threading.Event) -> None:
        while not over.wait(self._for_s / 3):
            with self._lock:
                if self._epoch != epoch:
                    return
                try:
                    if not self._renewed():
                        self._epoch = 0
                        log.warning("lease_over", lease=self.name, epoch=epoch)
                        return
                except (StoreError, TimeoutError) as error:
                    log.warning("lease_not_renewed", lease=self.name, error=error)

    def _renewed(self) -> bool:
        asked_s, epoch = _clock_s(), self._epoch

        def renew(connection: Connection) -> bool:
            return connection.execute(_RENEW, (self._for_s, self.name, epoch)).rowcount > 0

        if not self._written(renew):
            return False
        self._until_s = asked_s + self._for_s
        return True

    def _taken(self) -> bool:
        # A read first: who looks in vain, every second or so, is to cost no commit, and to wait for nobody's lock.
        found = (
            self._db.read()
            .execute("SELECT holder, until_s > now_s() FROM leases WHERE name = ?", (self.name,))
            .fetchone()
        )
        dead = ""
        if found is not None and found[1]:
            if not _has_ended(found[0]):
                return False
            dead = found[0]
        asked_s = _clock_s()

        def take(connection: Connection) -> int:
            row = connection.execute(_TAKE, (self.name, self._me, self._for_s, dead)).fetchone()
            return 0 if row is None else int(row[0])

        self._epoch = self._written(take)
        self._until_s = asked_s + self._for_s
        return self._epoch > 0

    def _written(self, job: Callable[[Connection], T]) -> T:
        # In a context of its own: a lease is let go whatever has become of another one around it.
        return Context().run(self._db.write, job).result(_WRITE_S)


class _Guard:
    """Of what is written under one epoch of a lease."""

    def __init__(self, lease: Lease, epoch: int) -> None:
        self._lease = lease
        self._epoch = epoch
        self._locked = lease._db.locking("share")

    def check(self, connection: Connection) -> None:
        """Raises LeaseOver. Until the transaction ends nobody else can take the lease."""
        lease = self._lease
        found = connection.execute(
            f"SELECT 1 FROM leases WHERE name = ? AND epoch = ? AND until_s > now_s(){self._locked}",  # noqa: S608
            (lease.name, self._epoch),
        ).fetchone()
        if found is None:
            raise LeaseOver(f"the lease '{lease.name}' is over")

    def check_here(self) -> None:
        """Raises LeaseOver."""
        if self._lease._epoch != self._epoch or self._lease._left_s() <= 0:
            raise LeaseOver(f"the lease '{self._lease.name}' is over")


def again_while_alone(
    chore: Callable[[], None],
    lease: Lease | None,
    stopping: threading.Event,
    *,
    every_s: float,
    failed: str,
    wanted: Callable[[], object] = lambda: True,
) -> None:
    """Do `chore` again and again, `every_s` apart, whenever it is wanted and nobody else is at it, until `stopping`. Blocks.

    What either raises is logged as the event `failed`. The lease is let go each time. `wanted`: whether there is anything
    to do, which costs no commit. Without a lease several processes may be at it.
    """
    while not stopping.is_set():
        try:
            if lease is None:
                chore()
            elif wanted():
                do_if_alone(chore, lease, failed=failed)
                lease.release()
        except Exception as error:
            log.error(failed, error=error)
        stopping.wait(every_s)


def do_if_alone(chore: Callable[[], object], lease: Lease, *, failed: str) -> None:
    """Do `chore` unless another process holds the lease, which is kept afterwards. Logs what goes wrong as `failed`."""
    try:
        if lease.take():
            with lease.holding():
                chore()
    except Exception as error:
        log.error(failed, error=error)


def _clock_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@cache
def _machine() -> str:
    """Of processes whose ids can be compared: since when it runs, and which of its spaces of ids."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}.{Path('/proc/self/ns/pid').stat().st_ino}"


def _process(pid: int) -> str:
    return f"{_machine()}/{pid}.{_started(pid)}"


def _started(pid: int) -> str:
    """When a process was started, as the kernel counts: its id may be given to another. Empty once it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _has_ended(holder: str) -> bool:
    """Whether a holder's process was on this machine, and is not there any more."""
    process, _, _ = holder.rpartition("/")
    machine, _, which = process.rpartition("/")
    pid = which.partition(".")[0]
    return machine == _machine() and pid.isdigit() and _process(int(pid)) != process


_TAKE = (
    "INSERT INTO leases (name, holder, epoch, until_s) VALUES (?1, ?2, 1, now_s() + ?3)"
    " ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, epoch = leases.epoch + 1, until_s = excluded.until_s"
    " WHERE leases.until_s <= now_s() OR leases.holder = ?4 RETURNING epoch"
)
_LET_GO = "UPDATE leases SET until_s = 0.0 WHERE name = ? AND epoch = ?"
_RENEW = "UPDATE leases SET until_s = now_s() + ? WHERE name = ? AND epoch = ? AND until_s > now_s()"
