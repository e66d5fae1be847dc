"""Limits of keys, tenants and end users, which hold exactly over workers: reserved before an engine is asked, settled after.

A ticket stands for one request, from its head to its end: it counts the request, and holds its place among those under way.
A reservation stands for one question to engines: the dollars and tokens that it may take. Both are taken from purses
(gateway.limits.ledger); with the store failing, rates are counted here alone, and dollars are refused once a purse is empty.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from engines.chat import ChatRequest, Usage
from engines.engine import Price
from engines.errors import RequestError
from gateway.keys import Sender
from gateway.limits import errors
from gateway.limits.calendar import ENDLESS_S, MINUTE_S, Span, minute, span
from gateway.limits.errors import REQUESTS, TOKENS, LimitReached
from gateway.limits.expected import (
    MOST_TOKENS,
    OUTPUT_FIELDS,
    Expectations,
    Expected,
    answers_asked,
    check_numbers,
    most_output,
)
from gateway.limits.headers import R, Rate, rate_headers
from gateway.limits.ledger import Blind, Ledger, Refused
from gateway.limits.purse import Purse
from gateway.limits.scopes import Scope, key_scopes, most_output_of, user_scopes
from router.asked import Arrival
from store.errors import StoreError
from store.people.allowance import CONCURRENCY, NANO, USD, Window
from store.people.limits import Period
from store.records import Key, Tenant

_KNOWN_KEYS = 10_000
_KNOWN_PURSES = 1_000
_NEVER = Span(0, ENDLESS_S)


@dataclass(frozen=True, slots=True)
class Need:
    """What one question may take of the limits, at the dearest engine that may be asked."""

    model: str
    """As the client calls it."""
    expected: Expected
    usd: float | None
    """None: it has no price."""
    prices: Sequence[Price] = ()
    """Of the engines that may be asked."""
    answers: int = 1
    later: bool = False
    """It is answered in the background: what that takes is not told with what comes back at once."""

    @property
    def input_usd(self) -> float:
        """What of it may be charged for the input alone. Only where no answer began does it matter."""
        if self.usd is None:
            return 0.0
        return dearest(self.prices, self.expected.input_tokens, 0) or 0.0


class _Share(NamedTuple):
    """A part of a purse that one request has; of none, where the store failed."""

    scope: str
    kind: str
    purse: Purse | None
    amount: int


class _Want(NamedTuple):
    """So much of one window."""

    scope: Scope
    kind: str
    per: Period | None
    """None: of a minute, or of what has no window."""
    limit: int
    need: int
    least: int | None = None
    """Where `need` is a guess: with so much left it takes what is left. None: as much as it needs."""


class _OfKey(NamedTuple):
    """Whose limits hold for a key's requests."""

    key: Key
    tenant: Tenant | None
    scopes: tuple[Scope, ...]
    each_user: bool
    """Whether single end users are limited, too."""


class Ticket:
    """One request under way. `leave` it at its end, however it ends."""

    __slots__ = ("_each_user", "_held", "_limiter", "_request_id", "key", "scopes", "tenant", "user")

    def __init__(self, limiter: Limiter, request_id: str, known: _OfKey, user: str | None) -> None:
        self._limiter = limiter
        self._request_id = request_id
        self._each_user = known.each_user
        self.key = known.key
        self.tenant = known.tenant
        self.scopes = known.scopes
        """Whose limits hold, as far as that is known."""
        if user is not None and known.each_user:
            self.scopes = (*self.scopes, *user_scopes(self.key, self.tenant, user))
        self.user = user
        self._held: list[_Share] = []

    async def enter(self) -> None:
        """Count the request against the limits of its key and tenant. Raises LimitReached; then nothing of it counts."""
        self._held += await self._limiter.begin(self.scopes)

    async def named(self, user: str) -> None:
        """It is known which end user it is for, by a digest; empty: it names none. Raises LimitReached. Once per request."""
        if self.user is None:
            self.user = user
            scopes = user_scopes(self.key, self.tenant, user) if self._each_user else ()
            if scopes:
                self.scopes = (*self.scopes, *scopes)
                self._held += await self._limiter.begin(scopes)

    def headers(self) -> dict[str, str]:
        """`x-ratelimit-...` of the tightest limits."""
        return self._limiter.headers(self.scopes)

    def lend(self) -> None:
        """Give its place among those under way back: it waits for steps from here on, which take places themselves."""
        held, self._held = self._held, []
        self._limiter.end(held)

    async def back(self) -> None:
        """Take its place again, in its turn."""
        while True:
            try:
                self._held += await self._limiter.begin(self.scopes, counts=False)
            except LimitReached as full:
                await self._limiter.room(full)
            else:
                return

    def leave(self) -> None:
        """The request has ended."""
        held, self._held = self._held, []
        self._limiter.left(self._request_id, held)

    def told(self, response: R) -> R:
        """An answer of ours that has not been sent yet, with `headers`."""
        if not response.prepared:
            response.headers.update(self.headers())
        return response


class Reservation:
    """See router.bill.Bill."""

    __slots__ = ("_limiter", "_need", "_shares")

    def __init__(self, limiter: Limiter, need: Need, shares: list[_Share]) -> None:
        self._limiter = limiter
        self._need = need
        self._shares: list[_Share] | None = shares

    def settle(self, usd: float | None, usage: Usage | None) -> None:
        """See Bill."""
        shares, self._shares = self._shares, None
        if shares is None:
            return
        estimated = usage is not None and usage.estimated
        if estimated and self._need.later:
            self._shares = shares
            self.settle_unknown(began=True)
            return
        tokens = usage.tokens if usage is not None else 0
        if usd is None and usage is not None and self._need.usd:
            # It has a price, and its answer could be counted, but not what that costs.
            usd, estimated = self._need.usd, True
        self._limiter.spend(shares, usd or 0.0, tokens, estimated=estimated)
        if usage is not None:
            need = self._need
            self._limiter.expectations.learn(need.model, need.expected.estimate, need.answers, usage)

    def settle_unknown(self, *, began: bool) -> None:
        """See Bill."""
        shares, self._shares = self._shares, None
        if shares is None:
            return
        need = self._need
        usd = need.usd or 0.0 if began else need.input_usd
        tokens = need.expected.input_tokens + (need.expected.output_tokens if began else 0)
        self._limiter.spend(shares, usd, tokens, estimated=True)


class Limiter:
    """See the module. `key_of` finds a key by its id, for what it asked earlier and is carried out now."""

    def __init__(
        self,
        ledger: Ledger,
        expectations: Expectations,
        key_of: Callable[[str], tuple[Key, Tenant | None] | None],
        *,
        when_blind: Literal["refuse", "allow"],
    ) -> None:
        self._ledger = ledger
        self.expectations = expectations
        self._key_of = key_of
        self._when_blind = when_blind
        self._tickets: dict[str, Ticket] = {}
        self._scopes: dict[str, _OfKey] = {}
        """By key, what follows from its record and its tenant's."""
        self._near: dict[tuple[str, str], Purse] = {}
        """The purse that served a scope's kind of limit last."""
        self._most_near = _KNOWN_PURSES
        self._spans: dict[tuple[Period, str], Span] = {}
        self._alone = SlidingWindowCounterRateLimiter(MemoryStorage())
        """Counts rates for this worker while the store fails."""
        self._under_way_alone: Counter[str] = Counter()
        self._ended: asyncio.Event | None = None
        """Set when a request ends, for steps that wait for its place."""

    # ---- a request, from its head on

    def ticket(self, request_id: str, sender: Sender, user: str | None = None) -> Ticket | None:
        """For a request or a step that has just begun; None where nothing limits its key. `user`: its end user's digest,
        where that is known already; empty for nobody."""
        key, tenant = sender.key, sender.tenant_record
        if key is None:
            return None
        known = self._of_key(key, tenant)
        if not known.scopes and not known.each_user:
            return None
        ticket = self._tickets[request_id] = Ticket(self, request_id, known, user)
        return ticket

    def lend(self, request_id: str) -> None:
        """A request waits for steps from here on: see Ticket.lend."""
        if (ticket := self._tickets.get(request_id)) is not None:
            ticket.lend()

    async def room(self, full: LimitReached, most_s: float = math.inf) -> None:
        """Return when there may be room again, or after `most_s`: after as long as the refusal says, or when a request ends
        here."""
        if self._ended is None:
            self._ended = asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(full.retry_after_s or 1.0, most_s)):
                await (self._ended if full.at_once else asyncio.Event()).wait()

    def left(self, request_id: str, places: Sequence[_Share]) -> None:
        """The request has ended."""
        self._tickets.pop(request_id, None)
        self.end(places)

    async def begin(self, scopes: Sequence[Scope], *, counts: bool = True) -> list[_Share]:
        """Count one request; gives the places that it holds. Raises LimitReached, and nothing is counted. Without `counts`
        it was counted before, and takes places only."""
        now_s = time.time()
        wants: list[_Want] = []
        for scope in scopes:
            limits = scope.limits
            if limits.concurrency is not None:
                wants.append(_Want(scope, CONCURRENCY, None, limits.concurrency, 1))
            if counts and limits.requests_per_minute is not None:
                wants.append(_Want(scope, REQUESTS, None, limits.requests_per_minute, 1))
        if not wants:
            return []
        shares = self._at_once(wants, now_s)
        if shares is None:
            shares = await self._one_by_one(wants, now_s)
            counted = [share.purse for share in shares if share.kind == REQUESTS and share.purse is not None]
            self._ledger.settle_all([(purse, 1, 1) for purse in counted])
        return [share for share in shares if share.kind == CONCURRENCY]

    def end(self, shares: Sequence[_Share]) -> None:
        """Nothing of these is used any more."""
        if not shares:
            return
        if self._ended is not None:
            self._ended.set()
            self._ended = None
        self._ledger.settle_all([(one.purse, one.amount, 0) for one in shares if one.purse is not None])
        for share in shares:
            if share.purse is None and share.kind == CONCURRENCY:
                self._under_way_alone[share.scope] -= 1
                if not self._under_way_alone[share.scope]:
                    del self._under_way_alone[share.scope]

    # ---- a question to engines

    def scopes_of(self, arrival: Arrival) -> tuple[Scope, ...]:
        """Whose limits hold for a question: of a request under way, or of what its key asked earlier.

        Raises LimitReached where that cannot be told.
        """
        ticket = self._tickets.get(arrival.id)
        if ticket is not None:
            return ticket.scopes
        if not arrival.key_id:
            return ()
        try:
            known = self._key_of(arrival.key_id)
        except StoreError:
            held = self._scopes.get(arrival.key_id)
            if held is None and self._when_blind == "refuse":
                raise errors.blind() from None
            known = held[:2] if held is not None else None
        if known is None:
            return ()
        key, tenant = known
        of_key = self._of_key(key, tenant)
        return (
            (*of_key.scopes, *user_scopes(key, tenant, arrival.user)) if of_key.each_user else of_key.scopes
        )

    async def ask(
        self,
        scopes: Sequence[Scope],
        model: str,
        prices: Sequence[Price],
        size_bytes: int,
        fields: Mapping[str, Any],
        api: str,
        *,
        answers_no_text: bool = False,
        images: int = 0,
    ) -> Reservation | None:
        """Set aside what a question may take at the dearest of these prices. Raises LimitReached and RequestError.

        `size_bytes`: of the largest body that an engine may get; `fields`: what it says. `answers_no_text`: such as
        embeddings; `images`: how many are asked for.
        """
        if not any(scope.spends for scope in scopes):
            return None
        expected = self.expectations.expected(model, size_bytes, fields, api)
        if answers_no_text:
            expected = replace(expected, output_tokens=0)
        usd = dearest(prices, expected.input_tokens, expected.output_tokens, images)
        later = fields.get("background") is True
        need = Need(model, expected, usd, prices, answers_asked(fields, api), later)
        return await self.reserve(scopes, need)

    def most(self, chat: ChatRequest, prices: Sequence[Price]) -> tuple[float, int]:
        """(dollars, tokens) that a request may take at the dearest of these prices; 0 dollars where one says none."""
        one = self.expectations.expected(chat.model, len(chat.body), chat.own_fields, chat.api)
        usd = dearest(prices, one.input_tokens, one.output_tokens)
        return usd or 0.0, one.input_tokens + one.output_tokens

    async def reserve(self, scopes: Sequence[Scope], need: Need) -> Reservation | None:
        """Set aside what a question may take; None where nothing of it is limited. Raises LimitReached and RequestError."""
        now_s = time.time()
        tokens = need.expected.input_tokens + need.expected.output_tokens
        nano = _nano(need.usd or 0.0)
        wants: list[_Want] = []
        for scope in scopes:
            if (most := scope.limits.tokens_per_minute) is not None:
                if tokens > most and (need.expected.said or need.expected.input_tokens > most):
                    raise errors.too_much_for_the_minute(scope.label, most, tokens)
                # Of an answer whose length is only guessed, no more than the minute has left. What it takes beyond that
                # keeps the next ones waiting.
                least = None if need.expected.said else min(need.expected.input_tokens + 1, most)
                wants.append(_Want(scope, TOKENS, None, most, min(tokens, most), least))
            if need.usd is None and scope.limits.budgets and not scope.limits.allow_unpriced:
                raise errors.unpriced(scope.label, need.model)
            if nano > 0:
                wants += [_Want(scope, kind, per, most, nano) for kind, per, most in scope.budgets]
        if not wants:
            return None
        shares = self._at_once(wants, now_s)
        if shares is None:
            shares = await self._one_by_one(wants, now_s)
        return Reservation(self, need, shares)

    def spend(self, shares: Sequence[_Share], usd: float, tokens: int, *, estimated: bool) -> None:
        """Book what a question took. From any thread; never raises."""
        nano = _nano(usd)
        self._ledger.settle_all(
            [
                (share.purse, share.amount, tokens if share.kind == TOKENS else nano)
                for share in shares
                if share.purse is not None
            ],
            estimated=estimated,
        )

    def bounded(self, scopes: Sequence[Scope], fields: Mapping[str, Any], api: str) -> dict[str, Any]:
        """What to change of a body so that its answer keeps to the most output; nothing where it does already.

        Raises RequestError where more is asked for, and for what is no number of tokens or answers.
        """
        found = most_output_of(scopes)
        if found is not None or any(scope.spends for scope in scopes):
            check_numbers(fields, api)
        if found is None:
            return {}
        most, label = found
        own_field = OUTPUT_FIELDS.get(api, ("",))[0]
        answers = answers_asked(fields, api)
        asked = most_output(fields, api)
        if asked is not None and asked * answers > most:
            raise RequestError(
                f"This request asks for up to {_at_most_shown(asked * answers)} tokens of output, and {label} may have"
                f" {most}.",
                code="max_output_tokens_exceeded",
                param=next((name for name in fields if name.startswith("max_")), own_field),
            )
        if asked is not None or not own_field:
            return {}
        if most < answers:
            raise RequestError(
                f"This request asks for {answers} answers, and {label} may have {most} tokens of output.",
                code="max_output_tokens_exceeded",
                param="n",
            )
        return {own_field: most // answers}

    def headers(self, scopes: Sequence[Scope]) -> dict[str, str]:
        """`x-ratelimit-...` of the tightest limits on requests and tokens."""
        rated = [(scope.name, kind, limit) for scope in scopes for kind, limit in scope.rates]
        if not rated:
            return {}
        now_s = time.time()
        found = minute(now_s)
        reset_s = max(0.0, found.ends_s - now_s)
        rates: dict[str, Rate] = {}
        for name, kind, limit in rated:
            purse, left = self._near.get((name, kind)), limit
            if purse is not None and not purse.ends and purse.window.start_s == found.start_s:
                left = min(limit, purse.left)
            if kind not in rates or left < rates[kind].remaining:
                rates[kind] = Rate(limit, left, reset_s)
        return rate_headers(rates)

    # ---- shares

    def _at_once(self, wants: Sequence[_Want], now_s: float) -> list[_Share] | None:
        """All of them from purses that are here; None, and nothing is taken, where those do not suffice."""
        taken: list[tuple[Purse, int, bool]] = []
        shares = []
        near = self._near
        for scope, kind, _, limit, need, _ in wants:
            purse = near.get((scope.name, kind))
            if purse is None or purse.limit != limit:
                return None
            window = purse.window
            if not window.start_s <= now_s < window.ends_s:
                return None
            taken.append((purse, need, kind == REQUESTS))
            shares.append(_Share(scope.name, kind, purse, need))
        return shares if self._ledger.take_all(taken) else None

    async def _one_by_one(self, wants: Sequence[_Want], now_s: float) -> list[_Share]:
        """The same, where the store has to be asked. Raises LimitReached, and nothing is taken."""
        shares: list[_Share] = []
        try:
            for want in wants:
                # One after the other: what was taken before one is refused has to go back.
                shares.append(await self._share(want, now_s))  # noqa: PERF401
        except BaseException:
            self.end(shares)
            raise
        return shares

    async def _share(self, want: _Want, now_s: float) -> _Share:
        scope, kind, per, limit, need, least = want
        found = _NEVER
        if per is not None:
            found = self._span(per, scope.limits.time_zone, now_s)
        elif kind != CONCURRENCY:
            found = minute(now_s)
        window = Window(scope.name, kind, *found)
        rolls_s = MINUTE_S if kind in (REQUESTS, TOKENS) else 0
        ledger = self._ledger
        try:
            purse = ledger.purse(window, limit, rolls_s) or await ledger.open(window, limit, rolls_s)
            self._note(scope.name, kind, purse)
            need = await self._drawn(purse, need, least)
        except Refused as refused:
            raise _told(scope, window, limit, refused, now_s) from None
        except Blind:
            return self._share_alone(scope, window, limit, need)
        return _Share(scope.name, kind, purse, need)

    async def _drawn(self, purse: Purse, need: int, least: int | None) -> int:
        """How much was reserved. Raises Refused and Blind."""
        while not self._ledger.take(purse, need):
            try:
                await self._ledger.draw(purse, need)
                break
            except Refused as refused:
                rest = purse.most - purse.spent_by_all
                if least is None:
                    raise
                if not (refused.spent and least <= rest < need):
                    raise Refused(purse, least, spent=refused.spent) from None
                need = rest
        return need

    def _note(self, scope: str, kind: str, purse: Purse) -> None:
        """Keep it at hand. Those that were given back are dropped now and then: clients make up end users."""
        self._near[scope, kind] = purse
        if len(self._near) > self._most_near:
            self._near = {name: one for name, one in self._near.items() if not one.lost}
            self._most_near = max(_KNOWN_PURSES, 2 * len(self._near))

    def _share_alone(self, scope: Scope, window: Window, limit: int, need: int) -> _Share:
        """The same by this worker's own count. Raises LimitReached."""
        kind = window.kind
        if kind.startswith(USD):
            if self._when_blind == "refuse":
                raise errors.blind()
        elif kind == CONCURRENCY:
            if self._under_way_alone[scope.name] >= limit:
                raise errors.rate_limited(scope.label, kind, limit, need, 1.0)
            self._under_way_alone[scope.name] += 1
        elif not self._alone.hit(RateLimitItemPerMinute(limit), scope.name, kind, cost=need):
            raise errors.rate_limited(scope.label, kind, limit, need, MINUTE_S / 2)
        return _Share(scope.name, kind, None, need)

    def _of_key(self, key: Key, tenant: Tenant | None) -> _OfKey:
        known = self._scopes.get(key.id)
        if known is not None and known.key is key and known.tenant is tenant:
            return known
        if len(self._scopes) >= _KNOWN_KEYS:
            self._scopes.clear()
        each_user = bool(user_scopes(key, tenant, ""))
        known = self._scopes[key.id] = _OfKey(key, tenant, key_scopes(key, tenant), each_user)
        return known

    def _span(self, per: Period, zone: str, now_s: float) -> Span:
        found = self._spans.get((per, zone))
        if found is None or not found.start_s <= now_s < found.ends_s:
            found = self._spans[per, zone] = span(per, zone, now_s)
        return found


def dearest(prices: Sequence[Price], input_tokens: int, output_tokens: int, images: int = 0) -> float | None:
    """The most dollars that a question may cost at any of these; None: some has none."""
    most_usd = 0.0
    for price in prices:
        cost_usd = price.most_usd(input_tokens, output_tokens, images)
        if cost_usd is None:
            return None
        most_usd = max(most_usd, cost_usd)
    return most_usd


def _told(scope: Scope, window: Window, limit: int, refused: Refused, now_s: float) -> LimitReached:
    if window.kind.startswith(USD):
        return errors.budget_reached(scope.label, window, limit, refused.need, spent=refused.spent)
    wait_s = 1.0
    if window.kind != CONCURRENCY:
        wait_s = _until_room_s(refused.purse, refused.need, now_s)
    return errors.rate_limited(scope.label, window.kind, limit, refused.need, wait_s)


def _at_most_shown(tokens: int) -> str:
    """A number that a client may have made as large as it likes."""
    return str(tokens) if tokens < MOST_TOKENS else f"{MOST_TOKENS} or more"


def _until_room_s(purse: Purse, need: int, now_s: float) -> float:
    """Until the window before weighs so much less that there is room; at most until this one ends."""
    rest_s = max(0.0, purse.window.ends_s - now_s)
    weighs = purse.limit - purse.most
    too_much = purse.spent + purse.leased + need - purse.most
    return rest_s * min(1.0, too_much / weighs) if weighs > 0 else rest_s


def _nano(usd: float) -> int:
    """Nanodollars, rounded up; what no budget can hold becomes more than any."""
    return math.ceil(min(usd, MOST_TOKENS) * NANO - 1e-3)
