"""Limits the cost of comparing for a tenant: to a share of what offload has saved lately, and a starting allowance.

Everything is read from the store, and reserved in it before it is spent: restarts and workers make no difference. Where the
reference has no price, tokens are counted instead: a small engine's as a tenth of one of the reference's, and an offloaded
request saves as many as one of the reference's takes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import structlog

from engines.asking import A_TOKEN
from engines.engine import Price
from store.decisions.costs import Cap, Spending
from store.decisions.rollups import RequestRollups
from store.jobs.replay_jobs import ReplayJobs
from store.sums import DAY_S

log = structlog.get_logger(__name__)

Unit = Literal["usd", "tokens"]
IN_VAIN_USD, UNREAD, REFUSED = "usd in vain", "unread", "judges refused"
"""Further units of what was spent: dollars without an outcome, answers whose verdicts nobody could read, and judges that
failed their exam."""
_ROUNDING = 1e-9

_LATELY_S, _EVER_S = 30 * DAY_S, 399 * DAY_S
"""Two windows: what was saved long ago pays for nothing today, and the allowance is not given anew every month."""
_READ_EVERY_S = 3.0
_MOST_TENANTS = 10_000
"""Held in memory; beyond it what was read is forgotten."""
_FADING = 0.95
_KNOWN_AFTER = 12.0
"""Comparisons, less what has faded, after which their mean cost is believed."""


@dataclass(frozen=True, slots=True)
class SpendLimits:
    """The bounds of what may be spent."""

    spend_share: float
    """The share of what offload has saved lately."""
    starting_requests: int
    """Allowance on top, once: the price of so many of the tenant's requests at the reference."""
    max_usd_per_day: float
    """By all tenants together."""


@dataclass(frozen=True, slots=True)
class Served:
    """A model that is served: its reference, and what its costs are counted in."""

    reference: str
    unit: Unit


SMALL_TOKEN = 0.1
"""A small engine's token if nothing has a price, in tokens of the reference. Hosted small models cost a tenth or less of
the large ones of their families, and one on the operator's own machine less; a price in the configuration replaces it."""
_SMALL = Price(1e6 * SMALL_TOKEN, 1e6 * SMALL_TOKEN)


def price_in(unit: Unit, price: Price, *, small: bool = False) -> Price:
    """An engine's price in the unit that costs are counted in. `small`: it is neither the reference nor a judge."""
    if unit == "usd":
        return price
    return _SMALL if small else A_TOKEN


class Window(NamedTuple):
    """A tenant's requests since a time."""

    requests: int
    price: float
    """Mean cost of one at the reference."""
    saved: float
    """Their cost at the reference less what was paid, replay included."""


@dataclass(frozen=True, slots=True)
class Account:
    """A tenant's requests, lately and for as long as sums are kept."""

    lately: Window
    ever: Window

    @property
    def price(self) -> float:
        """Mean cost of one of the tenant's requests at the reference; 0 if nobody knows."""
        return self.lately.price or self.ever.price


@dataclass(frozen=True, slots=True)
class _Paid:
    """The costs of one tenant's comparisons in this process, mostly the latest: with and without a judge they differ."""

    comparisons: float = 0.0
    amount: float = 0.0
    by_small: float = 0.0
    """Answers of small engines."""
    for_small: float = 0.0


class Accounts:
    """The accounts of all tenants."""

    def __init__(
        self,
        rollups: RequestRollups,
        spending: Spending,
        replay: ReplayJobs,
        models: Mapping[str, Served],
        limits: SpendLimits,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._rollups = rollups
        self._spending = spending
        self._replay = replay
        self._models = dict(models)
        self.limits = limits
        self._clock = clock
        self._known: dict[tuple[str, Unit], tuple[float, Account]] = {}
        self._refused: dict[tuple[str, Unit], float] = {}
        self._left: dict[tuple[str, Unit], float] = {}
        """Share of what may be spent that is left, as of the latest reservation."""
        self._paid: dict[tuple[str, Unit], _Paid] = {}

    def unit(self, model: str) -> Unit:
        """Return the unit in which costs of a served model are counted."""
        return self._models[model].unit

    def read(self, tenant: str, unit: Unit) -> Account:
        """The tenant's account, at most some seconds old. Blocks."""
        account = self._lately(tenant, unit)
        if account is None:
            now = time.monotonic()
            self._rollups.catch_up()
            account = Account(*(self._window(tenant, unit, span_s) for span_s in (_LATELY_S, _EVER_S)))
            if len(self._known) >= _MOST_TENANTS:
                self._known.clear()
                self._refused.clear()
                self._left.clear()
            self._known[tenant, unit] = now, account
        return account

    def _lately(self, tenant: str, unit: Unit) -> Account | None:
        """The account where it was read some seconds ago at most: then nothing needs to be read for it."""
        read_at, account = self._known.get((tenant, unit), (0.0, None))
        return account if time.monotonic() <= read_at + _READ_EVERY_S else None

    async def reserve(
        self, tenant: str, unit: Unit, amount: float, own_price: float, *, last: bool = True
    ) -> Purse | None:
        """A purse with that amount, or None if a limit would not hold.

        `own_price`: of the request at hand at the reference, while none of the tenant's is known. `last`: whether there is
        nothing that may be had for less; then, if a limit does not hold, nothing else is begun for a moment.
        """
        purse = Purse(self, tenant, unit, own_price, self._clock())
        return purse if await purse.add(amount, last=last) else None

    async def _account(self, tenant: str, unit: Unit) -> Account:
        known = self._lately(tenant, unit)
        return known if known is not None else await asyncio.to_thread(self.read, tenant, unit)

    async def _reserve(self, purse: Purse, amount: float, *, last: bool) -> bool:
        account = await self._account(purse.tenant, purse.unit)
        caps = self._caps(account, purse)
        reserving = self._spending.reserve(purse.tenant, purse.unit, amount, purse.at_s, caps)
        reserved = await asyncio.wrap_future(reserving)
        self._left[purse.tenant, purse.unit] = await self._spending.reads(self._share_left, purse, caps[0])
        if not reserved and last:
            self._refused[purse.tenant, purse.unit] = time.monotonic()
        return reserved

    def refused(self, tenant: str, unit: Unit) -> bool:
        """Tell if a limit was exceeded just now."""
        at = self._refused.get((tenant, unit))
        return at is not None and time.monotonic() < at + _READ_EVERY_S

    def share_left(self, tenant: str, unit: Unit) -> float:
        """The share, 0 to 1, of what the tenant may spend that was left at the latest comparison; 1 before the first."""
        return self._left.get((tenant, unit), 1.0)

    def _share_left(self, purse: Purse, cap: Cap) -> float:
        spent = self._spending.spent(purse.unit, cap.since_s, self._clock(), cap.tenant)
        return max(0.0, 1.0 - spent / cap.most) if cap.most > 0 else 0.0

    async def left(self, tenant: str, unit: Unit) -> float:
        """Return how much the tenant may still spend."""
        now = self._clock()
        caps = self._caps(await self._account(tenant, unit), Purse(self, tenant, unit, 0.0, now))

        def least() -> float:
            return min(cap.most - self._spending.spent(unit, cap.since_s, now, cap.tenant) for cap in caps)

        return await self._spending.reads(least)

    def note(self, purse: Purse, spent: float, by_small: int, for_small: float) -> None:
        """Note the whole cost of a comparison, and the number and cost of small engines' answers in it."""
        if len(self._paid) >= _MOST_TENANTS:
            self._paid.clear()
        paid = self._paid.get((purse.tenant, purse.unit), _Paid())
        self._paid[purse.tenant, purse.unit] = _Paid(
            paid.comparisons * _FADING + 1,
            paid.amount * _FADING + spent,
            paid.by_small * _FADING + by_small,
            paid.for_small * _FADING + for_small,
        )

    def note_in_vain(self, tenant: str, usd: float, unread: int) -> None:
        """Book the cost of a comparison that no outcome tells, and the number of answers that could not be judged."""
        for unit, amount in ((IN_VAIN_USD, usd), (UNREAD, unread)):
            if amount > _ROUNDING:
                _book(self._spending, tenant, unit, 0.0, amount, self._clock())

    def note_refused(self, tenant: str) -> None:
        """A judge was examined by the tenant's traffic and failed."""
        _book(self._spending, tenant, REFUSED, 0.0, 1.0, self._clock())

    def worth(self, tenant: str, unit: Unit, more: int) -> bool:
        """Tell if so many further comparisons cost no more than a month's requests can save; True while that is unknown."""
        paid, (_, account) = self._paid.get((tenant, unit)), self._known.get((tenant, unit), (0.0, None))
        if account is None or not account.price or paid is None or paid.comparisons < _KNOWN_AFTER:
            return True
        by_small = paid.for_small / paid.by_small if paid.by_small and unit == "usd" else 0.0
        # A tenant who has just begun is taken to go on.
        requests = max(account.lately.requests, self.limits.starting_requests)
        can_save = requests * max(0.0, account.price - by_small)
        return more * paid.amount / paid.comparisons <= can_save

    def _caps(self, account: Account, purse: Purse) -> list[Cap]:
        limits, at_s = self.limits, purse.at_s
        allowance = limits.starting_requests * (account.price or purse.own_price)
        caps = []
        for span_s, window in ((_LATELY_S, account.lately), (_EVER_S, account.ever)):
            # What offload has lost counts in full.
            of_saved = limits.spend_share * window.saved if window.saved > 0 else window.saved
            caps.append(Cap(at_s - span_s, allowance + of_saved, purse.tenant))
        if purse.unit == "usd":
            caps.append(Cap(at_s - DAY_S, limits.max_usd_per_day))
        return caps

    def _window(self, tenant: str, unit: Unit, span_s: float) -> Window:
        now = self._clock()
        rows = [
            (row, row.engine == served.reference)
            for row in self._rollups.requests(DAY_S, (now - span_s) // DAY_S * DAY_S, tenant, by_time=False)
            if row.outcome == "answered" and (served := self._models.get(row.model)) and served.unit == unit
        ]
        if unit == "tokens":
            requests = sum(row.requests for row, _ in rows)
            by_reference = sum(row.requests for row, reference in rows if reference)
            tokens = sum(row.prompt_tokens + row.completion_tokens for row, reference in rows if reference)
            price = tokens / by_reference if by_reference else 0.0
            return Window(requests, price, price * (requests - by_reference))
        reckoned = sum(row.requests - row.unreckoned for row, _ in rows)
        price = sum(row.reference_cost_usd for row, _ in rows) / reckoned if reckoned else 0.0
        saved = sum(
            row.reference_cost_usd - row.cost_usd + row.unreckoned_usd
            for row, reference in rows
            if not reference
        )
        replayed = self._replay.spend(since_s=now - span_s, tenant=tenant)
        return Window(reckoned, price, saved - sum(line.spent.most_usd for line in replayed))


@dataclass(slots=True)
class Purse:
    """An amount that is set aside for one comparison."""

    accounts: Accounts
    tenant: str
    unit: Unit
    own_price: float
    at_s: float
    reserved: float = 0.0

    async def add(self, amount: float, *, last: bool = True) -> bool:
        """Set more aside; False, and nothing is, where a limit would not hold. `last`: see Accounts.reserve."""
        if not await self.accounts._reserve(self, amount, last=last):
            return False
        self.reserved += amount
        return True

    def settle(self, spent: float) -> None:
        """Book what was spent, and give the rest back. What cannot be written stays reserved."""
        _book(self.accounts._spending, self.tenant, self.unit, self.reserved, spent, self.at_s)


def _book(spending: Spending, tenant: str, unit: str, reserved: float, spent: float, at_s: float) -> None:
    try:
        spending.settle(tenant, unit, reserved, spent, at_s).add_done_callback(
            partial(report_failure, "spending")
        )
    except Exception as error:
        log.error("store_failed", kind="spending", error=error)


def report_failure(kind: str, written: Future[Any]) -> None:
    """Log that something of a kind could not be written; a callback of the write."""
    error = written.exception() if not written.cancelled() else None
    if error is not None:
        log.error("store_failed", kind=kind, error=error)
