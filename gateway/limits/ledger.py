"""What a worker holds of all limits: purses filled from the store, a journal beside them, and one task that books.

Handing out is arithmetic in memory. The store is asked only where a purse does not suffice; what was spent is booked a tenth
of a second later, for many requests at once. As soon as little is left of a window nothing of it lies idle here.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from gateway.limits.journal import Journal, boot_id, leftover, of_dead
from gateway.limits.purse import Purse
from store.errors import StoreError
from store.people.allowance import CONCURRENCY, Booking, Lease, Window, Worker
from store.people.allowances import Allowances, NoSuchWorker

T = TypeVar("T")

log = structlog.get_logger(__name__)

_TICK_S = 0.1
_QUIET_TICK_S = 5.0
_RENEWED_S = 5.0
_ALIVE_S = 30.0
"""How long a worker is taken to be alive that others cannot see: on another machine."""
_IDLE_S = 2.0
"""After that long without a request what is free goes back, and a window that is booked is let go of."""
_PATIENCE_S = 0.6
"""How long others are waited for that hold more than they need."""
_PAUSE_S = 0.05
_FAILING_PAUSE_S = 0.5
_BLIND_S = 1.0
"""For so long nobody waits for a store that has just failed."""
_LEASED_REQUESTS = 256
"""A lease holds as much as so many requests need at most: what a machine takes with it when it is lost."""
_STORE_S = 3.0
"""How long the store may take before it counts as failing."""


class Refused(Exception):
    """So much is not left of this window. `spent`: it is spent; else requests under way have reserved it."""

    def __init__(self, purse: Purse, need: int, *, spent: bool) -> None:
        super().__init__(purse.window.kind)
        self.purse = purse
        self.need = need
        self.spent = spent


class Blind(Exception):
    """The store does not answer, and what is here does not suffice."""


class Ledger:
    """See the module. `workers`: how many share the limits. Everything but `settle` is for the event loop's thread."""

    def __init__(self, allowances: Allowances, folder: Path, *, workers: int) -> None:
        self._allowances = allowances
        self._folder = folder
        self._parts = 4 * workers
        self._boot_id = boot_id()
        self._purses: dict[tuple[str, str, int], Purse] = {}
        self._lock = threading.Lock()
        """Around what `settle` changes from another thread."""
        self._worker: Worker | None = None
        self._journal: Journal | None = None
        self._joining: asyncio.Lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._writing: tuple[asyncio.Future[list[tuple[int, int]]], list[tuple[Purse, Booking]]] | None = None
        self._renewed_at = self._looked_at = 0.0
        self._failing = False
        self._blind_until = 0.0

    def start(self) -> None:
        """Start booking, where that has not begun. Inside the running loop."""
        if self._task is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._woken.set()
        self._task = self._loop.create_task(self._run(), name="limits")

    async def aclose(self) -> None:
        """Book everything and give all of it back. What is still reserved then counts as spent."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        worker, journal = self._worker, self._journal
        if worker is None or journal is None:
            return
        with self._lock:
            for purse in self._purses.values():
                if purse.window.kind != CONCURRENCY:
                    purse.settle(purse.reserved, purse.reserved, estimated=True)
        booked = False
        with suppress(StoreError, NoSuchWorker, TimeoutError):
            booked = await self._book(ends=True)
            await _in_time(self._allowances.leave(worker))
        journal.close(remove=booked)
        self._journal, self._worker = None, None

    # ---- handing out

    def purse(self, window: Window, limit: int, rolls_s: int = 0) -> Purse | None:
        """What is held of a window; None where nothing is yet: `open` then."""
        purse = self._purses.get(window[:3])
        if purse is None or purse.ends:
            return None
        if purse.limit != limit:
            purse.most += limit - purse.limit
            purse.limit = limit
            self._let_go(purse)
        return purse

    async def open(self, window: Window, limit: int, rolls_s: int = 0) -> Purse:
        """The same, where nothing was held. Raises Blind."""
        while True:
            journal = await self._joined()
            purse = self._purses.get(window[:3])
            if purse is None:
                try:
                    slot = journal.take_slot()
                except OSError as error:
                    raise Blind from error
                purse = self._purses[window[:3]] = Purse(window, limit, slot, rolls_s)
                purse.used_at = time.monotonic()
                self._woken.set()
            if not purse.ends:
                return purse
            # It is being given back: that takes as long as one write.
            await asyncio.sleep(_PAUSE_S / 10)

    def take(self, purse: Purse, need: int) -> bool:
        """Reserve of what is here. Microseconds."""
        with self._lock:
            taken = purse.take(need)
            if taken:
                self._note_reserved(purse)
        if taken:
            purse.used_at = time.monotonic()
        return taken

    def take_all(self, wanted: Sequence[tuple[Purse, int, bool]]) -> bool:
        """Reserve of all of these, or of none; (purse, amount, whether that is spent at once). Microseconds."""
        with self._lock:
            for purse, need, _ in wanted:
                if purse.granted - purse.settled - purse.reserved < need or purse.ends:
                    return False
            journal = self._journal
            if journal is None:
                return False
            for purse, need, at_once in wanted:
                if at_once:
                    purse.settled += need
                    journal.note(purse.slot, purse.settled, purse.estimated, purse.reserved)
                else:
                    purse.reserved += need
                    journal.reserved(purse.slot, purse.reserved)
        now = time.monotonic()
        for purse, _, _ in wanted:
            purse.used_at = now
        return True

    def settle_all(self, settled: Sequence[tuple[Purse, int, int]], *, estimated: bool = False) -> None:
        """Of what was reserved so much was spent: (purse, reserved, spent). From any thread."""
        with self._lock:
            journal = self._journal
            for purse, reserved, spent in settled:
                purse.settle(reserved, spent, estimated=estimated)
                if journal is not None and not purse.lost:
                    journal.note(purse.slot, purse.settled, purse.estimated, purse.reserved)
        for purse, reserved, _ in settled:
            if purse.most - purse.spent - purse.leased < self._parts * (reserved or 1):
                self._let_go(purse)

    async def draw(self, purse: Purse, need: int) -> None:
        """Reserve of what the store has left. Raises Refused and Blind."""
        came_at = time.monotonic()
        purse.waiting += need
        try:
            async with purse.lock:
                if self.take(purse, need):
                    return
                if purse.refused_at > came_at:
                    # Whoever stood before in this line has waited for others already.
                    raise Refused(purse, need, spent=self._is_spent(purse, need))
                await self._draw(purse, need)
        finally:
            purse.waiting -= need

    async def _draw(self, purse: Purse, need: int) -> None:
        until = time.monotonic() + _PATIENCE_S
        while not self.take(purse, need):
            if purse.ends:
                raise Blind
            lease = await self._leased(purse, need)
            if lease.granted:
                continue
            spent = self._is_spent(purse, need)
            if spent or time.monotonic() > until:
                purse.refused_at = time.monotonic()
                raise Refused(purse, need, spent=spent)
            # Others may hold more than they need: they are told, and give it back within a tenth of a second. Or they died.
            self._looked_at = 0.0
            self._woken.set()
            await asyncio.sleep(_PAUSE_S)

    def settle(self, purse: Purse, reserved: int, spent: int, *, estimated: bool = False) -> None:
        """Of what was reserved so much was spent. From any thread."""
        self.settle_all([(purse, reserved, spent)], estimated=estimated)

    def _let_go(self, purse: Purse) -> None:
        """Have what is free of it given back at once."""
        purse.wanted_until = time.monotonic() + _IDLE_S
        if self._loop is not None and not self._woken.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    def _note_reserved(self, purse: Purse) -> None:
        if self._journal is not None:
            self._journal.reserved(purse.slot, purse.reserved)

    def _is_spent(self, purse: Purse, need: int) -> bool:
        return purse.spent_by_all + need > purse.most

    async def _leased(self, purse: Purse, need: int) -> Lease:
        worker = self._worker
        if worker is None or time.monotonic() < self._blind_until:
            raise Blind
        free = max(0, purse.free)
        try:
            leasing = asyncio.wrap_future(
                self._allowances.lease(
                    worker,
                    purse.slot,
                    purse.window,
                    limit=purse.limit,
                    need=need - free,
                    wish=purse.waiting - free,
                    parts=self._parts,
                    largest=_LEASED_REQUESTS * need,
                    now_s=time.time(),
                    rolls_s=purse.rolls_s,
                )
            )
            # Also where whoever asked for it has left meanwhile, or waits no longer.
            leasing.add_done_callback(partial(self._granted, purse))
            return await _within(leasing)
        except NoSuchWorker as error:
            self._start_anew()
            raise Blind from error
        except (StoreError, TimeoutError) as error:
            self._blind_until = time.monotonic() + _BLIND_S
            raise Blind from error

    def _granted(self, purse: Purse, leasing: asyncio.Future[Lease]) -> None:
        if not leasing.cancelled() and leasing.exception() is None:
            with self._lock:
                purse.stands(leasing.result())

    async def _joined(self) -> Journal:
        """This worker's journal, and the store knows of the worker. Raises Blind."""
        async with self._joining:
            if self._journal is not None:
                return self._journal
            if time.monotonic() < self._blind_until:
                raise Blind
            worker = Worker(secrets.token_hex(8), self._boot_id, _ALIVE_S)
            try:
                journal = await asyncio.to_thread(Journal, self._folder, worker.id)
            except OSError as error:
                log.error("limits_journal_failed", error=error)
                raise Blind from error
            try:
                await _in_time(self._allowances.join(worker))
            except (StoreError, TimeoutError) as error:
                journal.close(remove=True)
                self._blind_until = time.monotonic() + _BLIND_S
                raise Blind from error
            self._worker, self._journal, self._renewed_at = worker, journal, time.monotonic()
            return journal

    def _start_anew(self) -> None:
        """Others took this worker for dead, and what it had reserved for spent."""
        log.error("limits_taken_for_dead")
        with self._lock:
            journal, self._journal, self._worker = self._journal, None, None
            for purse in self._purses.values():
                purse.ends = purse.lost = True
            self._purses.clear()
        if journal is not None:
            journal.close(remove=True)

    # ---- booking

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S if self._purses else _QUIET_TICK_S):
                    await self._woken.wait()
            self._woken.clear()
            try:
                await self._tick()
                if self._failing:
                    self._failing = False
                    log.info("limits_booked_again")
            except NoSuchWorker:
                self._start_anew()
            except Exception as error:
                # Whatever it is, what was spent must be booked once that is over.
                if not self._failing:
                    log.error("limits_not_booked", error=error)
                self._failing = True
                await asyncio.sleep(_FAILING_PAUSE_S)

    async def _tick(self) -> None:
        now = time.monotonic()
        if any(purse.free > 0 for purse in self._purses.values()):
            for key in await asyncio.to_thread(self._allowances.wanted):
                if (purse := self._purses.get(key)) is not None:
                    purse.wanted_until = now + _IDLE_S
        await self._book()
        if self._worker is not None and now - self._renewed_at > _RENEWED_S:
            self._renewed_at = now
            await _in_time(self._allowances.renew(self._worker))
        if now - self._looked_at > _RENEWED_S:
            self._looked_at = now
            await asyncio.to_thread(self._settle_the_dead)

    async def _book(self, *, ends: bool = False) -> bool:
        """Tell the store what changed; whether it has everything then. Raises what the store does, and NoSuchWorker."""
        if self._writing is not None:
            # It took too long before, and may be written yet.
            await self._written()
        worker = self._worker
        if worker is None:
            return True
        with self._lock:
            changed = [(p, b) for p in self._purses.values() if (b := self._booking(p, ends)) is not None]
        if not changed:
            return True
        bookings = [booking for _, booking in changed]
        nobody_waits = not any(one.granted < 0 or one.ends for one in bookings)
        try:
            booked = self._allowances.book(worker, bookings, patient=nobody_waits)
        except StoreError:
            self._not_booked(changed)
            raise
        self._writing = asyncio.wrap_future(booked), changed
        await self._written()
        return True

    async def _written(self) -> None:
        assert self._writing is not None
        writing, changed = self._writing
        try:
            states = await _within(writing)
        except (StoreError, NoSuchWorker):
            self._writing = None
            self._not_booked(changed)
            raise
        self._writing = None
        with self._lock:
            for (purse, booking), state in zip(changed, states, strict=True):
                purse.booked_as(booking, *state)
                if booking.ends:
                    purse.lost = True
                    self._purses.pop(purse.window[:3], None)
                    if self._journal is not None:
                        self._journal.give_slot(purse.slot)

    def _not_booked(self, changed: Sequence[tuple[Purse, Booking]]) -> None:
        with self._lock:
            for purse, booking in changed:
                purse.not_booked(booking)

    def _booking(self, purse: Purse, ends: bool) -> Booking | None:
        now = time.monotonic()
        idle = now - purse.used_at > _IDLE_S and not purse.waiting
        over = not purse.reserved and not purse.waiting and (idle or ends)
        give_back = ends or idle or (purse.wanted_until > now and not purse.waiting)
        return purse.booking(give_back=give_back, ends=over and (ends or idle))

    # ---- the dead

    def _settle_the_dead(self) -> None:
        """Book what dead workers had handed out as spent, and return what else they held. Blocks.

        Raises what the store does.
        """
        mine = self._worker.id if self._worker is not None else ""
        known = [worker for worker in self._allowances.workers() if worker.id != mine]
        for worker in known:
            self._settle_if_dead(worker)
        for name in set(leftover(self._folder)) - {worker.id for worker in known} - {mine}:
            with suppress(OSError):
                if (dead := of_dead(self._folder, name)) is not None:
                    with dead:
                        dead.remove()

    def _settle_if_dead(self, worker: Worker) -> None:
        try:
            dead = of_dead(self._folder, worker.id)
        except OSError:
            # Of another machine, or its file is gone: only the clock can tell.
            if worker.left_s < 0:
                self._settled(worker, self._allowances.settle_dead(worker.id, None))
            return
        if dead is None:
            return
        with dead:
            same_boot = bool(self._boot_id) and worker.boot_id == self._boot_id
            self._settled(worker, self._allowances.settle_dead(worker.id, dead.read() if same_boot else None))
            dead.remove()

    def _settled(self, worker: Worker, booked: Future[int]) -> None:
        log.info("limits_of_dead_worker_settled", worker=worker.id, leases=booked.result(_STORE_S))


async def _in_time(future: Future[T]) -> T:
    """A write's result. Raises TimeoutError where the store takes too long; the write may happen all the same."""
    return await _within(asyncio.wrap_future(future))


async def _within(future: asyncio.Future[T]) -> T:
    async with asyncio.timeout(_STORE_S):
        return await asyncio.shield(future)
