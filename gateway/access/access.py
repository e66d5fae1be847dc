"""Decides whether a request that came with a gateway key may go on: before any handler, for every endpoint.

Without gateway keys the client's own credential is the upstream's business, and nothing is decided here. With them all of
them share the operator's account upstream, so what that account keeps is closed unless the key lists it, or its tenant has
an upstream key of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import parse_qs

from aiohttp import web

from engines.errors import RequestError
from gateway.access.families import Endpoint, State, api_of, endpoint
from gateway.access.stored_ids import StoredId, stored_ids
from gateway.azure import from_azure
from gateway.handlers.store_access import stored
from gateway.keys import Sender
from gateway.off_loop import off_loop
from gateway.paths import origin_form
from gateway.query import query_of
from gateway.websocket import wants_upgrade
from gateway.wire import is_form, is_json, read_ahead, read_form_once, read_json_ahead
from learning.bank.contributor import EndUsers
from router.asked import EVERYTHING, Arrival, Reach
from store.people.limits import Limits

if TYPE_CHECKING:
    from store.people.owned import Owned
    from store.records import Key, Tenant

_MOST_QUOTED = 100
_MOST_TERMS = 10_000
_FREE = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
"""What asks no upstream to work."""
_SAID_BY_STEPS = frozenset({"/files", "/vector_stores", "/data_sources", "/kv_transfer", "/audio/voices"})
"""What a chat completion may name: other names of a run, a workflow or an example are the client's own."""


class Owners(Protocol):
    """Tells whose ids are: gateway.response_owners.ResponseOwners."""

    async def find(self, id: str, tenant: str, end_user: str = "") -> Owned | None: ...


class _Terms(NamedTuple):
    """What follows from a key's record and its tenant's."""

    key: Key
    tenant: Tenant | None
    scopes: list[tuple[str, Limits]]
    reach: Reach


class Access:
    """One per gateway. `own_accounts`: ids of tenants with an upstream key of their own."""

    def __init__(
        self,
        end_users: EndUsers | None,
        owners: Owners | None,
        *,
        users_required: bool = False,
        own_accounts: Iterable[str] = (),
        priced: Callable[[str, str], bool],
        max_json_bytes: int,
    ) -> None:
        """`end_users`, `owners`: None where nothing is remembered, and so there are no keys. `priced` says of a model's name
        and a path whether whoever may answer has a price."""
        self._end_users = end_users
        self._owners = owners
        self._users_required = users_required
        self._own_accounts = frozenset(own_accounts)
        self._priced = priced
        self._max_json_bytes = max_json_bytes
        self._terms: dict[str, _Terms] = {}
        """By key, what follows from its record and its tenant's."""

    def arrived(self, arrival: Arrival, sender: Sender | None, target: str) -> Arrival:
        """The arrival with whose it is, and what they may reach. `target`: below the prefix."""
        api = api_of(target)
        if sender is None:
            return arrival.of(api, arrival.tenant)
        key, tenant = sender.key, sender.tenant_record
        if key is None:
            return arrival.of(api, sender.tenant, anonymous=sender.anonymous)
        own = tenant.partition if tenant is not None else None
        return arrival.of(
            api,
            sender.tenant,
            sender.key_id,
            key_name=key.name,
            tenant_name=key.tenant_name,
            reach=self._terms_of(sender).reach,
            partition=key.partition or own or "",
        )

    async def admit(self, request: web.BaseRequest, target: str, sender: Sender, arrival: Arrival) -> Arrival:
        """The arrival with the end user that it names. `arrival` is what `arrived` gave.

        Raises RequestError: 403 for what the key may not use, 404 for an id that is not its own, 400 and 413 for a body
        that cannot be read.
        """
        asked = endpoint(request.method, target)
        if (azure := from_azure(origin_form(request.raw_path))) is not None and azure.deployment:
            asked = asked._replace(model=azure.deployment)
        scopes = self._terms_of(sender).scopes
        self._check_endpoint(request, asked, scopes, arrival)
        self._check_model(query_of(target.partition("?")[2]).get("model", ""), arrival)
        if asked.state is State.KEPT or request.method != "POST":
            arrival = self._named(arrival, request, {})
            self._check_model(asked.model, arrival)
            if asked.state is State.NONE:
                await self._check_all_stored(stored_ids({"model": asked.model}), scopes, arrival)
            await self._check_owner(asked, arrival)
            return arrival
        fields = await self._fields(request, asked)
        arrival = self._named(arrival, request, fields)
        if not arrival.user and asked.state is State.NONE and self._requires_user(sender):
            raise self._nobody_named()
        await self._check_owner(asked, arrival)
        named = [one for one in (asked.model, fields.get("model"), *_others(fields)) if one]
        if not named and arrival.reach.models and asked.state is State.NONE:
            raise RequestError(
                f"The models that this key may use are limited, so a request to {asked.path} has to name one.",
                status=403,
                code="model_not_allowed",
                param="model",
            )
        for name in named:
            if not isinstance(name, str):
                raise RequestError("model must be a string.", code="invalid_type", param="model")
            self._check_model(name, arrival)
        if arrival.reach.priced_only and asked.state is State.NONE:
            for name in named or [""]:
                self._check_price(str(name), asked)
        size = request.content_length or 0
        found = await off_loop(size, _stored, fields, asked)
        await self._check_all_stored(found, scopes, arrival)
        if asked.state is State.NONE and (query := target.partition("?")[2]):
            await self._check_all_stored(stored_ids(parse_qs(query)), scopes, arrival)
        return arrival

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
        if not (models or own_account or region or priced_only):
            return EVERYTHING
        return Reach(models, region, priced_only, own_account)

    def _named(self, arrival: Arrival, request: web.BaseRequest, fields: Mapping[str, Any]) -> Arrival:
        end_users = self._end_users
        user = end_users.sources.user(request.headers, fields) if end_users is not None else ""
        if not user or end_users is None:
            return arrival
        return replace(arrival, user=end_users.digest(arrival.tenant, user))

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

    def _check_endpoint(
        self, request: web.BaseRequest, asked: Endpoint, scopes: list[tuple[str, Limits]], arrival: Arrival
    ) -> None:
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
        upgrades = wants_upgrade(request)
        if asked.state is not State.KEPT and not upgrades:
            return
        if arrival.reach.priced_only and (upgrades or request.method not in _FREE) and asked.api != "files":
            raise _unpriced("what is asked for", asked)
        opened = _opens(asked.path, scopes) and (not upgrades or asked.api == "realtime")
        if not opened and not arrival.reach.own_account:
            raise _closed(asked.path if not upgrades else f"WebSockets at {asked.path}", scopes)

    async def _check_owner(self, asked: Endpoint, arrival: Arrival) -> None:
        if asked.state is State.NOTED and not arrival.reach.own_account:
            await self._check_noted(StoredId("id", "/responses", asked.named_id, "response"), arrival)

    def _check_model(self, name: str, arrival: Arrival) -> None:
        if not name or arrival.reach.allows_model(name):
            return
        raise RequestError(
            f"The model '{name[:_MOST_QUOTED]}' is not among those that this key may use"
            f" ({'; '.join(_listed(globs) for globs in arrival.reach.models)}).",
            status=403,
            code="model_not_allowed",
            param="model",
        )

    def _check_price(self, model: str, asked: Endpoint) -> None:
        if not self._priced(model, asked.path):
            raise _unpriced(f"'{model[:_MOST_QUOTED]}'", asked, "model")

    async def _check_all_stored(
        self, found: Iterable[StoredId], scopes: list[tuple[str, Limits]], arrival: Arrival
    ) -> None:
        for one in found:
            await self._check_stored(one, scopes, arrival)

    async def _check_stored(self, one: StoredId, scopes: list[tuple[str, Limits]], arrival: Arrival) -> None:
        if arrival.reach.own_account:
            return
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

    # ---- bodies

    async def _fields(self, request: web.BaseRequest, asked: Endpoint) -> Mapping[str, Any]:
        if not request.body_exists:
            return {}
        if asked.state is State.OWN and not is_json(request):
            # Its handler says what it takes.
            return {}
        form = is_form(request)
        if not form and not is_json(request):
            raise _unreadable(request, "Content-Type")
        raw = await read_ahead(request, self._max_json_bytes)
        if form:
            read = await read_form_once(request, raw, self._max_json_bytes)
            if read is None:
                raise _unreadable(request, "Content-Encoding")
            return read.fields
        if asked.state is not State.NONE and not raw.strip():
            return {}
        try:
            fields = await read_json_ahead(request, raw, self._max_json_bytes)
        except RequestError:
            if asked.state is State.OWN:
                # Its handler reads it again, and says what is wrong.
                return {}
            raise
        if fields is None:
            raise _unreadable(request, "Content-Encoding")
        return fields


def _others(fields: Mapping[str, Any]) -> list[Any]:
    """Further models that some upstreams turn to where the first fails."""
    others = fields.get("models")
    return others if isinstance(others, list) else []


def _stored(fields: Mapping[str, Any], asked: Endpoint) -> list[StoredId]:
    if asked.state is State.OWN:
        # Its names are its own, but what it holds of chat completions is asked of an upstream later.
        return [one for one in stored_ids(fields) if one.family in _SAID_BY_STEPS]
    return list(stored_ids(fields, chat=asked.path == "/chat/completions", items=asked.api == "responses"))


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


def _unreadable(request: web.BaseRequest, header: str) -> RequestError:
    value = request.headers.get(header, "")[:_MOST_QUOTED]
    return RequestError(
        f"With a key of this gateway a body has to be readable here, and one with {header} {value!r} is not: send JSON or a"
        " form, as it is or with gzip or deflate.",
        status=415,
        code="unsupported_media_type",
    )


def _listed(globs: Iterable[str]) -> str:
    found = list(globs)
    return ", ".join(found[:10]) + (" …" if len(found) > 10 else "")
