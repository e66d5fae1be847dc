"""Whose request is this? The gateway's own API keys where there are some, else the client's own credential."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from aiohttp import web
from multidict import CIMultiDict

from engines.errors import RequestError
from engines.headers import request_headers
from gateway.journey import Journey
from store.records import Key

DEFAULT_TENANT = "default"


class Gatekeeper(Protocol):
    """Decides whose request this is."""

    @property
    def strips_credentials(self) -> bool:
        """Whether the client's credential is ours and must not leave for an upstream."""
        ...

    def admit(self, request: web.BaseRequest, journey: Journey) -> None:
        """Set the journey's tenant. Raises RequestError (401)."""
        ...


class Anybody:
    """Nothing is remembered, so nobody needs telling apart."""

    strips_credentials = False

    def admit(self, request: web.BaseRequest, journey: Journey) -> None:
        """Let everyone in."""


class ByCredential:
    """Nothing is remembered, but some engine must tell tenants apart: the HMAC of the client's credential is its tenant."""

    strips_credentials = False

    def __init__(self, tenant_of: Callable[[str], str]) -> None:
        self._tenant_of = tenant_of

    def admit(self, request: web.BaseRequest, journey: Journey) -> None:
        """Let everyone in."""
        credential = presented(request)
        journey.tenant = self._tenant_of(credential) if credential else DEFAULT_TENANT


class KeyBook(Protocol):
    """What the door needs of store.people.keys.KeyStore."""

    def any_configured(self) -> bool: ...

    def lookup(self, secret_text: str) -> Key | None: ...


class KeyCheck:
    """With keys configured, one of them is needed; without, the HMAC of the client's credential is its tenant."""

    def __init__(self, keys: KeyBook, tenant_of: Callable[[str], str]) -> None:
        self._keys = keys
        self._tenant_of = tenant_of

    @property
    def strips_credentials(self) -> bool:
        """Whether `Authorization` holds a key of ours, which must not leave for an upstream."""
        return self._keys.any_configured()

    def admit(self, request: web.BaseRequest, journey: Journey) -> None:
        """See gateway.door.Gatekeeper."""
        credential = presented(request)
        if not self._keys.any_configured():
            journey.tenant = self._tenant_of(credential) if credential else DEFAULT_TENANT
            return
        if credential is None:
            raise RequestError(
                "No API key was sent. Set your client's api_key to one of this gateway's keys.",
                status=401,
                code="missing_api_key",
            )
        key = self._keys.lookup(credential)
        if key is None:
            raise RequestError(
                "This API key is not known here, or was revoked.", status=401, code="invalid_api_key"
            )
        journey.tenant = key.tenant
        journey.key_id = key.id


def presented(request: web.BaseRequest) -> str | None:
    """The client's credential: its bearer token, or Azure's `api-key` header."""
    authorization = request.headers.get("Authorization")
    if authorization:
        scheme, _, token = authorization.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else authorization
    return request.headers.get("api-key")


def outgoing_headers(request: web.BaseRequest, keys: Gatekeeper) -> CIMultiDict[str]:
    """The client's end-to-end headers, without its credential where that is a key of ours."""
    headers = request_headers(request.headers)
    if keys.strips_credentials:
        headers.popall("Authorization", None)
        headers.popall("api-key", None)
    return headers
