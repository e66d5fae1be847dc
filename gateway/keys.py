"""Whose request is this? The gateway's own API keys where there are some, else the client's own credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from multidict import CIMultiDict, MultiMapping, istr

from engines.errors import RequestError
from engines.headers import CREDENTIALS, request_headers
from store.errors import StoreError
from store.people.secret import TOKEN_PREFIX
from store.records import Found, Key

if TYPE_CHECKING:
    from store.records import Tenant

DEFAULT_TENANT = "default"
_KEY_HEADERS = ("Authorization", "api-key", "x-api-key")
"""Where one of the gateway's own keys may stand."""
_RETRY_AFTER_S = 5.0
_OF_THE_ACCOUNT = ("OpenAI-Organization", "OpenAI-Project", "anthropic-workspace-id", "x-goog-user-project")
_NO_CREDENTIALS = ("__cf_bm", "_cfuvid", "__cflb", "AWSALB", "AWSELB", "ARRAffinity")
"""How cookies begin that load balancers and bot filters set anew with any answer: they say nothing of who asks."""


class Sender(NamedTuple):
    """Who sent a request."""

    tenant: str
    key_id: str | None = None
    """The gateway's own key that it came with."""
    anonymous: bool = False
    """No credential came with it: nothing is remembered of it, and nothing remembered is used for it."""
    key: Key | None = None
    """The same key with its limits; None where clients have none."""
    tenant_record: Tenant | None = None
    """What is configured of the key's tenant; None where nothing is."""


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
    """The HMAC of the client's own credentials is its tenant. Enough where nothing is remembered.

    Clients without any are one tenant; `anonymous` says whether something is remembered of them.
    """

    strips_credentials = False

    def __init__(
        self, tenant_of: Callable[[str], str], *, headers: Sequence[str] = (), anonymous: bool = False
    ) -> None:
        """`headers`: further names of headers that hold a credential."""
        self._tenant_of = tenant_of
        # As multidict's own strings, which it need not fold for each look-up.
        self._headers = tuple(dict.fromkeys(istr(n.lower()) for n in (*CREDENTIALS, *headers)))
        self._anonymous = anonymous

    def identified(self, headers: MultiMapping[str]) -> Sender:
        """See Authenticator."""
        credential = credentials(headers, self._headers)
        if credential is None:
            return Sender(DEFAULT_TENANT, anonymous=not self._anonymous)
        if TOKEN_PREFIX in credential:
            raise RequestError(
                "This is a token of the admin API, which answers no requests to models.",
                status=401,
                code="invalid_api_key",
            )
        return Sender(self._tenant_of(credential))


class Keys(Protocol):
    """Looks up API keys: store.people.keys.KeyStore."""

    def any_configured(self) -> bool: ...

    def found(self, secret_text: str) -> Found | None: ...

    def expired(self, secret_text: str) -> bool: ...


class KeyAuthentication:
    """With keys configured, one of them is needed; without, `keyless` says who sent a request."""

    def __init__(self, keys: Keys, keyless: CredentialTenants) -> None:
        self._keys = keys
        self._keyless = keyless

    @property
    def strips_credentials(self) -> bool:
        """Whether the client's credential is a key of ours, which must not leave for an upstream."""
        return self._keys.any_configured()

    def identified(self, headers: MultiMapping[str]) -> Sender:
        """See Authenticator. Raises RequestError (503), too, where the keys cannot be told any more."""
        try:
            return self._identified(headers)
        except StoreError as error:
            raise unknown_keys() from error

    def _identified(self, headers: MultiMapping[str]) -> Sender:
        if not self._keys.any_configured():
            return self._keyless.identified(headers)
        presented = [_token(headers[name]) for name in _KEY_HEADERS if headers.get(name)]
        if not presented:
            raise RequestError(
                "No API key was sent. Set your client's api_key to one of this gateway's keys.",
                status=401,
                code="missing_api_key",
            )
        found = next(filter(None, map(self._keys.found, presented)), None)
        if found is None:
            raise refused_key(expired=any(map(self._keys.expired, presented)))
        key = found.key
        return Sender(key.tenant, key.id, key=key, tenant_record=found.tenant)


def refused_key(*, expired: bool) -> RequestError:
    """The refusal of a key that opens nothing."""
    if expired:
        return RequestError("This API key has expired.", status=401, code="expired_api_key")
    return RequestError("This API key is not known here, or was revoked.", status=401, code="invalid_api_key")


def unknown_keys() -> RequestError:
    """The refusal while nobody can tell which keys are in force."""
    return RequestError(
        "Keys cannot be checked just now; try again.",
        status=503,
        code="store_unavailable",
        retry_after_s=_RETRY_AFTER_S,
    )


def credentials(headers: MultiMapping[str], names: Sequence[str] = CREDENTIALS) -> str | None:
    """Everything among `headers` that is a credential, as one text; None where there is nothing.

    A bearer token, or an `api-key`, that stands alone is the text itself; all else is told with the headers' names.
    """
    found = [pair for name in names if name in headers for pair in _found(headers, name)]
    if len(found) == 1 and found[0][0] in ("authorization", "api-key"):
        name, value = found[0]
        return _token(value) if name == "authorization" else value
    # A header's value holds no zero byte: no two lists give the same text.
    return "".join(f"\0{name}\0{value}" for name, value in sorted(found)) or None


def _found(headers: MultiMapping[str], name: str) -> Iterator[tuple[str, str]]:
    """(name in lower case, value) of each credential in the headers of this name."""
    for value in headers.getall(name):
        if name.lower() == "cookie":
            value = ";".join(c for c in value.split(";") if not c.lstrip().startswith(_NO_CREDENTIALS))
        if _token(value).strip():
            yield name.lower(), value


def _token(value: str) -> str:
    """A credential header's value without the word `Bearer`."""
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else value


def outgoing_headers(headers: MultiMapping[str], keys: Authenticator) -> CIMultiDict[str]:
    """The client's end-to-end headers, without its credential where that is a key of ours; nor may it choose then which part
    of the operator's account is used."""
    outgoing = request_headers(headers)
    if keys.strips_credentials:
        for name in (*_KEY_HEADERS, *_OF_THE_ACCOUNT):
            outgoing.popall(name, None)
    return outgoing


def needs_credential(anonymous: bool) -> None:
    """For endpoints that read or write what is remembered of their caller. Raises RequestError (401)."""
    if anonymous:
        raise RequestError(
            "Nothing is remembered of requests without a credential, so there is nothing here. Send the api_key "
            "that your other requests send.",
            status=401,
            code="missing_credential",
        )
