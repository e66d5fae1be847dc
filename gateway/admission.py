"""The one way in: whoever leads to an engine, a component or something stored is admitted here, and nowhere else.

`admit(who, wanted)` gives the Admitted that pipeline, components and stores ask for: of requests and WebSockets before any
handler, and of each step of a run when it is about to be asked, with what its key may do by then.

Without gateway keys the client's own credential is the upstream's business, and nothing is decided here. With them all of
them share the operator's account upstream, so what that account keeps is closed unless the key lists it, or its tenant has
an upstream key of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from weakref import WeakValueDictionary

from aiohttp import web

from engines.errors import RequestError
from engines.off_loop import off_loop
from gateway import wanted as requests
from gateway.access.families import Endpoint, State, api_of
from gateway.access.stored_ids import StoredId
from gateway.endpoints.store_access import stored
from gateway.keys import Sender, refused_key, unknown_keys
from gateway.limits.errors import LimitReached
from gateway.limits.expected import Expected
from gateway.limits.limiter import Need
from gateway.wanted import Wanted
from gateway.websocket import wants_upgrade
from learning.bank.contributor import EndUsers
from router.asked import EVERYTHING, A, Admitted, Arrival, Reach
from store.errors import StoreError
from store.people.limits import Limits

if TYPE_CHECKING:
    from gateway.limits.limiter import Limiter, Reservation, Ticket
    from store.people.owned import Owned
    from store.records import Key, Tenant

T = TypeVar("T")

_MOST_QUOTED = 100
_MOST_TERMS = 10_000
_FREE = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
"""What asks no upstream to work."""


class Owners(Protocol):
    """Tells whose ids are: gateway.response_owners.ResponseOwners."""

    async def find(self, id: str, tenant: str, end_user: str = "") -> Owned | None: ...


class _Terms(NamedTuple):
    """What follows from a key's record and its tenant's."""

    key: Key
    tenant: Tenant | None
    scopes: list[tuple[str, Limits]]
    reach: Reach


class Admission:
    """One per gateway. `own_accounts`: ids of tenants with an upstream key of their own."""

    def __init__(
        self,
        end_users: EndUsers | None,
        owners: Owners | None,
        limiter: Limiter | None = None,
        *,
        in_force: Callable[[str], tuple[Key, Tenant | None] | None] = lambda key_id: None,
        users_required: bool = False,
        own_accounts: Iterable[str] = (),
        priced: Callable[[str, str], bool],
        max_json_bytes: int,
        max_wait_s: float,
    ) -> None:
        """`end_users`, `owners`, `limiter`: None where nothing is remembered, and so there are no keys. `in_force` gives a
        key that is not revoked, by its id, as it is now. `priced` says of a model's name and a path whether whoever may
        answer has a price. `max_wait_s`: how long a step waits for its turn at most."""
        self._end_users = end_users
        self._owners = owners
        self._limiter = limiter
        self._in_force = in_force
        self._users_required = users_required
        self._own_accounts = frozenset(own_accounts)
        self._priced = priced
        self._max_json_bytes = max_json_bytes
        self._max_wait_s = max_wait_s
        self._terms: dict[str, _Terms] = {}
        """By key, what follows from its record and its tenant's."""
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By key and end user: steps that wait until their limits have room, first come first."""

    # ---- requests

    def arrived(self, arrival: Arrival, sender: Sender | None, target: str) -> Arrival:
        """The arrival with whose it is: admitted, where it came with no key. `target`: below the prefix."""
        api = api_of(target)
        if sender is None:
            return arrival.of(Admitted, api, arrival.tenant)
        if sender.key is None:
            return arrival.of(Admitted, api, sender.tenant, anonymous=sender.anonymous)
        # What it may reach is looked up when it is let in.
        return _of_sender(Arrival, arrival, api, sender, EVERYTHING, "")

    async def request(
        self, request: web.BaseRequest, target: str, sender: Sender, arrival: Arrival
    ) -> Admitted:
        """A request with a key, admitted. `arrival` is what `arrived` gave. Raises as `admit` does, and RequestError 400 and
        413 for a body that cannot be read."""
        asked = requests.head(request, target)
        self._check_endpoint(asked, sender, request.method, wants_upgrade(request))
        wanted = await requests.read(request, asked, target, self._max_json_bytes)
        user, end_users = "", self._end_users
        if end_users is not None and (named := end_users.sources.user(request.headers, wanted.fields)):
            user = end_users.digest(sender.tenant, named)
        return await self.admit(arrival, sender, wanted, user, request.content_length or 0)

    async def again(self, request: web.BaseRequest, target: str, who: Admitted) -> Admitted:
        """A WebSocket that is open, with what its key may do by now. Raises as `request`, and RequestError: 401 for a key
        that is gone, 503 where that cannot be told."""
        return await self.request(request, target, self._sender(who), who)

    async def admit(
        self, who: Arrival, sender: Sender, wanted: Wanted, user: str, size_bytes: int = 0
    ) -> Admitted:
        """The one that everything else asks for. `sender`: whose request it is, as the store has them now; `user`: the
        digest of the end user that it names; `size_bytes`: of its body.

        Raises RequestError: 403 for what the key may not use, 404 for an id that is not its own, 400 where it has to name an
        end user.
        """
        asked = wanted.asked
        if sender.key is None:
            return _of_sender(Admitted, who, asked.api, sender, EVERYTHING, user)
        terms = self._terms_of(sender)
        scopes, reach = terms.scopes, terms.reach
        admitted = _of_sender(Admitted, who, asked.api, sender, reach, user)
        asks = asked.state is State.NONE and who.method == "POST"
        if (
            not user
            and (asks or (asked.api == "runs" and who.method == "POST"))
            and self._requires_user(sender)
        ):
            raise self._nobody_named()
        if asked.state is State.NOTED and not reach.own_account:
            await self._check_noted(StoredId("id", "/responses", asked.named_id, "response"), admitted)
        named = wanted.models()
        if asks and not named and reach.models:
            raise RequestError(
                f"The models that this key may use are limited, so a request to {asked.path} has to name one.",
                status=403,
                code="model_not_allowed",
                param="model",
            )
        for name in named:
            if not reach.allows_model(name):
                raise _not_among("model", name, reach.models)
        if asks and reach.priced_only:
            for name in named or [""]:
                self._check_price(name, asked)
        if asked.state is not State.KEPT and not reach.own_account:
            for one in await off_loop(size_bytes, wanted.stored):
                await self._check_stored(one, scopes, admitted)
        return admitted

    # ---- steps of runs

    async def step(
        self,
        who: Callable[[], Arrival],
        fields: Mapping[str, Any],
        ask: Callable[[Admitted], Awaitable[T]],
    ) -> T:
        """What comes of `ask` for a step, once it is admitted with what its key may do by then, and its limits have room.

        `who` gives a new arrival of its client for each time that it is tried; `fields`: its chat completion. Raises
        RequestError, and what `ask` does.
        """
        wanted = requests.step(fields)
        until_s = time.monotonic() + self._max_wait_s
        while True:
            arrival = who()
            line = self._lines.setdefault(f"{arrival.key_id}/{arrival.user}", asyncio.Lock())
            async with line:
                admitted, ticket = await self._in_turn(arrival, wanted, until_s)
            try:
                return await ask(admitted)
            except LimitReached as full:
                if not full.passes or time.monotonic() >= until_s:
                    raise
                again_s = time.monotonic() + (full.retry_after_s or 1.0)
            finally:
                if ticket is not None:
                    ticket.leave()
            async with line:
                await asyncio.sleep(max(0.0, min(again_s, until_s) - time.monotonic()))

    async def carried_out(self, who: Arrival, fields: Mapping[str, Any]) -> Admitted:
        """A step that its client's own request carries out, which was counted when it came. Raises as `admit` does."""
        return await self.admit(who, self._sender(who), requests.step(fields), who.user)

    def component(self, who: Arrival, name: str = "") -> Admitted:
        """A step that asks a component, or what is kept here (an empty `name`). Raises RequestError: 401 for a key that is
        gone, 403 for a component that is not among its own."""
        sender = self._sender(who)
        reach = EVERYTHING if sender.key is None else self._terms_of(sender).reach
        if name and not reach.allows_component(name):
            raise _not_among("component", name, reach.components)
        return _of_sender(Admitted, who, who.api, sender, reach, who.user)

    async def reserve(self, who: Admitted, component: str, usd: float) -> Reservation | None:
        """Set aside what a step may cost at a component; None where nothing of it is limited. Raises LimitReached."""
        limiter = self._limiter
        if limiter is None or not usd:
            return None
        need = Need(component, Expected(0, 0, said=True, estimate=0), usd)
        return await limiter.reserve(limiter.scopes_of(who), need)

    async def _in_turn(
        self, arrival: Arrival, wanted: Wanted, until_s: float
    ) -> tuple[Admitted, Ticket | None]:
        while True:
            sender = self._sender(arrival)
            admitted = await self.admit(arrival, sender, wanted, arrival.user)
            limiter = self._limiter
            ticket = None if limiter is None else limiter.ticket(arrival.id, sender, arrival.user)
            if limiter is None or ticket is None:
                return admitted, None
            try:
                await ticket.enter()
            except LimitReached as full:
                ticket.leave()
                if not full.passes or time.monotonic() >= until_s:
                    raise
                await limiter.room(full, until_s - time.monotonic())
            except BaseException:
                ticket.leave()
                raise
            else:
                return admitted, ticket

    def _sender(self, who: Arrival) -> Sender:
        """Whose step it is, as the store has them now. Raises RequestError: 401 for a key that is gone, 503 where that
        cannot be told."""
        if who.key_id is None:
            return Sender(who.tenant, anonymous=who.anonymous)
        try:
            found = self._in_force(who.key_id)
        except StoreError as error:
            raise unknown_keys() from error
        now_s = time.time()
        if found is None or any(
            one is not None and one.expires_at_s is not None and one.expires_at_s <= now_s for one in found
        ):
            raise refused_key(expired=found is not None)
        return Sender(who.tenant, who.key_id, key=found[0], tenant_record=found[1])

    # ---- who asks

    def _terms_of(self, sender: Sender) -> _Terms:
        key = sender.key
        assert key is not None
        known = self._terms.get(key.id)
        # A key that was changed is another object, as is its tenant's record.
        if known is None or known.key is not key or known.tenant is not sender.tenant_record:
            if len(self._terms) >= _MOST_TERMS:
                self._terms.clear()
            scopes = _scopes(sender)
            known = _Terms(key, sender.tenant_record, scopes, self._reach(sender, [one for _, one in scopes]))
            self._terms[key.id] = known
        return known

    def _reach(self, sender: Sender, scopes: list[Limits]) -> Reach:
        tenant = sender.tenant_record
        models = tuple(limits.models for limits in scopes if limits.models)
        own_account = sender.tenant in self._own_accounts
        region = tenant.region if tenant is not None else ""
        priced_only = any(limits.budgets and not limits.allow_unpriced for limits in scopes)
        components = tuple(limits.components for limits in scopes if limits.components)
        if not (models or own_account or region or priced_only or components):
            return EVERYTHING
        return Reach(models, region, priced_only, own_account, components)

    def _nobody_named(self) -> RequestError:
        names = self._end_users.sources.names if self._end_users is not None else ()
        return RequestError(
            f"This key's requests have to name their end user, as a text in {' or '.join(names)}.",
            code="user_required",
            param=next((name for name in names if "-" not in name), None),
        )

    def _requires_user(self, sender: Sender) -> bool:
        key, tenant = sender.key, sender.tenant_record
        for one in (key, tenant):
            if one is not None and one.users_required is not None:
                return one.users_required
        return self._users_required

    # ---- what they ask for

    def _check_endpoint(self, asked: Endpoint, sender: Sender, method: str, upgrades: bool) -> None:
        terms = self._terms_of(sender)
        scopes = terms.scopes
        if asked.state is State.ADMIN:
            raise RequestError(
                "The upstream account's own administration is not reached through this gateway.",
                status=403,
                code="endpoint_not_allowed",
            )
        for who, limits in scopes:
            if limits.endpoints and not _matches(asked.path, limits.endpoints):
                raise RequestError(
                    f"{who} may not use {asked.path[:_MOST_QUOTED]}: its endpoints are {_listed(limits.endpoints)}.",
                    status=403,
                    code="endpoint_not_allowed",
                )
        if asked.state is not State.KEPT and not upgrades:
            return
        if upgrades and asked.path == "/responses":
            # Each of its frames is let in by itself (gateway.responses_socket).
            return
        if terms.reach.priced_only and (upgrades or method not in _FREE) and asked.api != "files":
            raise _unpriced("what is asked for", asked)
        opened = _opens(asked.path, scopes) and (not upgrades or asked.api == "realtime")
        if not opened and not terms.reach.own_account:
            raise _closed(asked.path if not upgrades else f"WebSockets at {asked.path}", scopes)

    def _check_price(self, model: str, asked: Endpoint) -> None:
        if not self._priced(model, asked.path):
            raise _unpriced(f"'{model[:_MOST_QUOTED]}'", asked, "model")

    async def _check_stored(self, one: StoredId, scopes: list[tuple[str, Limits]], arrival: Arrival) -> None:
        if one.noted_as and not _opens(f"{one.family}/{one.id}", scopes):
            await self._check_noted(one, arrival)
        elif not one.noted_as and not (
            _opens(f"{one.family}/{one.id}", scopes)
            # A model that is listed by name was meant.
            or (
                one.field == "model"
                and any(g.startswith("ft:") for globs in arrival.reach.models for g in globs)
            )
        ):
            raise _closed(f"'{one.field}', which names what is stored at {one.family}", scopes, one.field)

    async def _check_noted(self, one: StoredId, arrival: Arrival) -> None:
        if self._owners is None:
            return
        apart = self._end_users is not None and self._end_users.keeps_apart(arrival)
        end_user = arrival.user if apart else ""
        if await stored(self._owners.find(one.id, arrival.tenant, end_user)) is None:
            raise RequestError(
                f"There is no {one.noted_as} '{one.id[:_MOST_QUOTED]}' here.",
                status=404,
                code="not_found",
                param=one.field,
            )


def _of_sender(kind: type[A], arrival: Arrival, api: str, sender: Sender, reach: Reach, user: str) -> A:
    key, tenant = sender.key, sender.tenant_record
    if key is None:
        return arrival.of(kind, api, sender.tenant, anonymous=sender.anonymous, user=user)
    own = tenant.partition if tenant is not None else None
    return arrival.of(
        kind,
        api,
        sender.tenant,
        sender.key_id,
        key_name=key.name,
        tenant_name=key.tenant_name,
        reach=reach,
        partition=key.partition or own or "",
        user=user,
    )


def as_operator(arrival: Arrival, tenant: str) -> Admitted:
    """What the operator's own commands ask, in a tenant's name: nothing of it is limited."""
    return arrival.of(Admitted, api_of("/chat/completions"), tenant)


def _scopes(sender: Sender) -> list[tuple[str, Limits]]:
    """(who, in words; their limits): the key's, the tenant's, and those of each end user of theirs."""
    key, tenant = sender.key, sender.tenant_record
    assert key is not None
    found = [(f"The key '{key.name}'", key.limits)]
    if tenant is not None:
        found.append((f"The tenant '{tenant.name}'", tenant.limits))
    found.append(("An end user of this key", key.each_user))
    if tenant is not None:
        found.append(("An end user of this tenant", tenant.each_user))
    return found


def _opens(path: str, scopes: list[tuple[str, Limits]]) -> bool:
    """Whether what is kept at a path is listed by the key or the tenant, and by each of them that lists anything."""
    listed = [limits.endpoints for _, limits in scopes if limits.endpoints]
    return bool(listed) and all(_matches(path, globs) for globs in listed)


def _matches(path: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(path, glob.lower()) for glob in globs)


def _closed(what: str, scopes: list[tuple[str, Limits]], param: str | None = None) -> RequestError:
    who = scopes[0][0]
    return RequestError(
        f"{who} may not use {what[:_MOST_QUOTED]}: it is kept in the operator's account upstream, which all keys share. The"
        " operator can list it among the key's endpoints, or give the tenant an upstream key of its own.",
        status=403,
        code="endpoint_not_allowed",
        param=param,
    )


def _unpriced(what: str, asked: Endpoint, param: str | None = None) -> RequestError:
    return RequestError(
        f"What this key may spend is limited, and nothing says what {what} costs at {asked.path[:_MOST_QUOTED]}: give it a"
        " price, or the key allow_unpriced.",
        status=403,
        code="unpriced",
        param=param,
    )


def _not_among(kind: str, name: str, listed: Iterable[Iterable[str]]) -> RequestError:
    return RequestError(
        f"The {kind} '{name[:_MOST_QUOTED]}' is not among those that this key may use"
        f" ({'; '.join(map(_listed, listed))}).",
        status=403,
        code=f"{kind}_not_allowed",
        param="model" if kind == "model" else None,
    )


def _listed(globs: Iterable[str]) -> str:
    found = list(globs)
    return ", ".join(found[:10]) + (" …" if len(found) > 10 else "")
