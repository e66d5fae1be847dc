"""Whose request is this? The gateway's own API keys where there are some, else the client's own credential."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from multidict import CIMultiDict, MultiMapping

from engines.errors import RequestError
from engines.headers import request_headers
from store.records import Key

DEFAULT_TENANT = "default"


class Sender(NamedTuple):
    """Who sent a request."""

    tenant: str
    key_id: str | None = None
    """The gateway's own key that it came with."""


class Authenticator(Protocol):
    """Tells whose request this is."""

    @property
    def strips_credentials(self) -> bool:
        """Whether the client's credential is ours and must not leave for an upstream."""
        ...

    def identified(self, headers: MultiMapping[str]) -> Sender | None:
        """Who sent a request with these headers; None where nobody needs telling apart. Raises RequestError (401)."""
        ...


class NoAuthentication:
    """Nothing is remembered, so nobody needs telling apart."""

    strips_credentials = False

    def identified(self, headers: MultiMapping[str]) -> Sender | None:
        """See Authenticator."""
        return None


class CredentialTenants:
    """Nothing is remembered, but some engine must tell tenants apart: the HMAC of the client's credential is its tenant."""

    strips_credentials = False

    def __init__(self, tenant_of: Callable[[str], str]) -> None:
        self._tenant_of = tenant_of

    def identified(self, headers: MultiMapping[str]) -> Sender:
        """See Authenticator."""
        credential = presented(headers)
        return Sender(self._tenant_of(credential) if credential else DEFAULT_TENANT)


class Keys(Protocol):
    """Looks up API keys: store.people.keys.KeyStore."""

    def any_configured(self) -> bool: ...

    def lookup(self, secret_text: str) -> Key | None: ...


class KeyAuthentication:
    """With keys configured, one of them is needed; without, the HMAC of the client's credential is its tenant."""

    def __init__(self, keys: Keys, tenant_of: Callable[[str], str]) -> None:
        self._keys = keys
        self._tenant_of = tenant_of

    @property
    def strips_credentials(self) -> bool:
        """Whether `Authorization` holds a key of ours, which must not leave for an upstream."""
        return self._keys.any_configured()

    def identified(self, headers: MultiMapping[str]) -> Sender:
        """See Authenticator."""
        credential = presented(headers)
        if not self._keys.any_configured():
            return Sender(self._tenant_of(credential) if credential else DEFAULT_TENANT)
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
        return Sender(key.tenant, key.id)


def presented(headers: MultiMapping[str]) -> str | None:
    """The client's credential: its bearer token, or Azure's `api-key` header."""
    authorization = headers.get("Authorization")
    if authorization:
        scheme, _, token = authorization.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else authorization
    return headers.get("api-key")


def outgoing_headers(headers: MultiMapping[str], keys: Authenticator) -> CIMultiDict[str]:
    """The client's end-to-end headers, without its credential where that is a key of ours."""
    outgoing = request_headers(headers)
    if keys.strips_credentials:
        outgoing.popall("Authorization", None)
        outgoing.popall("api-key", None)
    return outgoing
