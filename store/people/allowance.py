"""What allowances are told by: windows, leases, bookings. Values only; store.people.allowances keeps them."""

from __future__ import annotations

from typing import NamedTuple

CONCURRENCY = "concurrency"
"""Of this kind nothing is ever spent: what is handed out comes back."""
USD = "usd:"
"""How the kinds of budgets begin; the period follows."""
NANO = 1_000_000_000
"""Units of a dollar."""


class Window(NamedTuple):
    """One window of one limit: whose, of what, and from when to when (Unix seconds)."""

    scope: str
    kind: str
    start_s: int
    ends_s: float


class Lease(NamedTuple):
    """What a worker was granted, and how the allowance stands then."""

    granted: int
    """0: nothing."""
    spent: int
    leased: int
    """By all workers, what was granted now among it."""
    most: int
    """The limit, less what the window before still weighs."""

    @property
    def left(self) -> int:
        """What nobody has."""
        return max(0, self.most - self.spent - self.leased)


class Booking(NamedTuple):
    """What changed of a worker's lease since it was booked last."""

    window: Window
    settled: int
    """More that was spent."""
    estimated: int
    """Of it, what nobody counted."""
    granted: int
    """More that the worker takes because it spent more than it was granted; negative: what it gives back."""
    ends: bool = False
    """The worker holds nothing of it any more."""


class Worker(NamedTuple):
    """A process that holds leases."""

    id: str
    boot_id: str
    left_s: float
    """How long others take it to be alive from now on, where they cannot tell: by the database's clock."""


class Held(NamedTuple):
    """What the journal of a dead worker says of one of its slots."""

    settled: int
    """In all."""
    estimated: int
    """Of it, what nobody counted."""
    reserved: int
    """For requests that were under way."""


class Standing(NamedTuple):
    """What was spent in a window."""

    window: Window
    spent: int
    estimated: int
    leased: int
