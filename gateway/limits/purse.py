"""A worker's part of one window of one limit: what it was granted, what of it is reserved, and what is spent.

Plain arithmetic, which knows neither store nor clock.
"""

from __future__ import annotations

import asyncio

from store.people.allowance import Booking, Lease, Window


class Purse:
    """See the module. Amounts are integers in the unit of the window's kind.

    `granted - settled - reserved` is free. All but `free` and `left` are in all, since the worker's lease began.
    """

    __slots__ = (
        "booked",
        "booked_estimated",
        "ends",
        "estimated",
        "granted",
        "leased",
        "limit",
        "lock",
        "lost",
        "most",
        "refused_at",
        "reserved",
        "rolls_s",
        "settled",
        "slot",
        "spent",
        "used_at",
        "waiting",
        "wanted_until",
        "window",
    )

    def __init__(self, window: Window, limit: int, slot: int, rolls_s: int) -> None:
        self.window = window
        self.limit = limit
        self.slot = slot
        """In the worker's journal."""
        self.rolls_s = rolls_s
        """The length of the window where it slides, else 0; seconds."""
        self.granted = self.settled = self.estimated = self.reserved = 0
        self.booked = self.booked_estimated = 0
        """Of `settled` and `estimated`, what the store has."""
        self.most, self.spent, self.leased = limit, 0, 0
        """As the store last said; `spent` and `leased` are everybody's."""
        self.waiting = 0
        """What requests that wait for the store need together."""
        self.lock = asyncio.Lock()
        """One request at a time asks the store."""
        self.refused_at = 0.0
        self.wanted_until = 0.0
        """Until then nothing is kept that no request needs now (time.monotonic)."""
        self.used_at = 0.0
        self.ends = False
        """It is given back; nobody may take from it any more."""
        self.lost = False
        """Its slot in the journal is another's."""

    @property
    def free(self) -> int:
        """What may be reserved without asking the store; below zero where more was spent than granted."""
        return self.granted - self.settled - self.reserved

    @property
    def left(self) -> int:
        """What nobody has reserved or spent, as far as this worker knows."""
        return max(0, self.free) + max(0, self.most - self.spent - self.leased)

    @property
    def spent_by_all(self) -> int:
        """What all workers have spent, as far as this one knows."""
        return self.spent + self.settled - self.booked

    def take(self, amount: int) -> bool:
        """Reserve, where so much is free."""
        if self.granted - self.settled - self.reserved < amount or self.ends:
            return False
        self.reserved += amount
        return True

    def settle(self, reserved: int, spent: int, *, estimated: bool) -> None:
        """Of what was reserved so much was spent."""
        self.settled += spent
        if estimated:
            self.estimated += spent
        self.reserved -= reserved

    def stands(self, lease: Lease) -> None:
        """Take note of what the store said."""
        self.granted += lease.granted
        self.spent, self.leased, self.most = lease.spent, lease.leased, lease.most

    def booking(self, *, give_back: bool, ends: bool) -> Booking | None:
        """What the store has to be told; None where that is nothing. What is given back is gone at once."""
        settled, estimated = self.settled - self.booked, self.estimated - self.booked_estimated
        granted = -self.free if give_back or self.free < 0 else 0
        if not settled and not granted and not ends:
            return None
        self.granted += granted
        self.ends = ends
        return Booking(self.window, settled, estimated, granted, ends)

    def booked_as(self, booking: Booking, spent: int, leased: int) -> None:
        """The store has it, and says how the window stands."""
        self.booked += booking.settled
        self.booked_estimated += booking.estimated
        self.spent, self.leased = spent, leased

    def not_booked(self, booking: Booking) -> None:
        """The store does not have it."""
        self.granted -= booking.granted
        self.ends = False
