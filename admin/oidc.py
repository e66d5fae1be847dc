"""Signing in with an OpenID provider: authorization code with PKCE (RFC 7636), the role from a claim of the ID token.

The provider is asked from here only: no address of it comes from a browser. Needs the extra `oidc` (joserfc).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import aiohttp
from cachetools import TTLCache
from yarl import URL

from admin.roles import Role
from store.people.secret import derive

_ALGORITHMS = ("RS256", "PS256", "ES256", "ES384", "RS384", "RS512", "EdDSA")
"""With a public key only: `none`, and what is signed with a shared secret, is not believed."""
_UNDER_WAY_S = 600.0
_MOST_TAKEN = 1000
_STATE, _LONGEST_TO = 64, 1000
"""Characters of a state, and of a page's path that a cookie holds."""
_ASKED_AGAIN_S = 3600.0
_KEYS_AGAIN_S = 30.0
"""How soon keys are fetched anew because of one that is not among them."""
_ANSWER_S = 10.0
_MOST_BYTES = 2**20
_LEEWAY_S = 60
_SHOWN_NAME = 40


class NotSignedIn(Exception):
    """The sign-in failed; the text is for the person and for the audit log, and quotes nothing of the browser's."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class OidcOptions:
    """Which provider, and whom it lets in as what."""

    issuer: str
    client_id: str
    public_url: str
    """Where browsers reach the admin pages, without a path."""
    roles: Mapping[str, str]
    """By value of the claim."""
    client_secret: str = field(default="", repr=False)
    """Empty for a public client."""
    role_claim: str = "groups"
    """With dots for a claim within a claim."""
    name_claim: str = "email"
    default_role: str | None = None
    """Of those whom no value of the claim gives one; None: they are not let in."""
    scopes: tuple[str, ...] = ("openid", "profile", "email")

    @property
    def redirect_uri(self) -> str:
        """Where the provider sends browsers back to."""
        return f"{self.public_url}{CALLBACK}"


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that was begun: where the browser goes, and the cookie by which it is known when it comes back."""

    url: str
    cookie: str
    longest_s: float = _UNDER_WAY_S


@dataclass(frozen=True, slots=True)
class Person:
    """Who signed in."""

    name: str
    """Of the account: the claim's, and some digits that no other person of the provider shares."""
    role: str
    to: str
    """The page that was wanted first."""


START, CALLBACK = "/sign-in/oidc", "/sign-in/oidc/callback"


class OidcSignIn:
    """Begins sign-ins and finishes them, also those that another process with the same secret began. For the event loop.

    What is under way stands in the browser's cookie: when it began and where it goes. State, nonce and verifier are HMACs of
    the cookie: nobody without the installation's secret makes up a cookie, or tells a verifier from one.
    """

    def __init__(self, options: OidcOptions, secret: bytes) -> None:
        """`secret`: the installation's. Raises ImportError without the extra `oidc`."""
        import joserfc  # noqa: F401

        self._options = options
        self._secret = secret
        self._taken: TTLCache[str, bool] = TTLCache(_MOST_TAKEN, _UNDER_WAY_S)
        """States that came back here. In another process it is the provider that takes no code twice."""
        self._provider: Mapping[str, Any] | None = None
        self._provider_until_s = 0.0
        self._keys: Any = None
        self._keys_at_s = 0.0

    async def begin(self, to: str) -> Begun:
        """A new sign-in, which goes to the page `to` in the end. Raises NotSignedIn while the provider cannot be asked."""
        provider = await self._asked_provider()
        cookie = f"{secrets.token_urlsafe(32)}.{time.time():.0f}.{quote(to[:_LONGEST_TO], safe='')}"
        state, nonce, verifier = self._made_of(cookie)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        options = self._options
        url = URL(provider["authorization_endpoint"]).update_query(
            response_type="code",
            client_id=options.client_id,
            redirect_uri=options.redirect_uri,
            scope=" ".join(options.scopes),
            state=state,
            nonce=nonce,
            code_challenge=challenge,
            code_challenge_method="S256",
        )
        return Begun(str(url), cookie)

    async def finish(self, query: Mapping[str, str], cookie: str) -> Person:
        """Who came back from the provider with this query and cookie. A state is taken once. Raises NotSignedIn."""
        came = query.get("state", "")
        state, nonce, verifier = self._made_of(cookie)
        known = hmac.compare_digest(state.encode(), came.encode())
        begun_s, to = cookie.split(".", 2)[1:] if known else ("0", "")
        spent = came in self._taken
        self._taken[came[:_STATE]] = True
        if not known or spent or time.time() > float(begun_s) + _UNDER_WAY_S:
            raise NotSignedIn(
                "This sign-in was not begun here, or took longer than ten minutes. Begin anew.", "state"
            )
        if query.get("iss", self._options.issuer) != self._options.issuer:
            raise NotSignedIn("The answer came from another provider.", "issuer")
        code = query.get("code", "")
        if "error" in query or not code:
            raise NotSignedIn("The provider did not sign you in.", "refused")
        claims = await self._claims(await self._id_token(code, verifier), nonce)
        return Person(self._name(claims), self._role(claims), unquote(to))

    def _made_of(self, cookie: str) -> tuple[str, str, str]:
        """State, nonce and verifier of a sign-in."""
        state, nonce, verifier = (
            derive(self._secret, f"{name} of a sign-in", cookie) for name in ("state", "nonce", "verifier")
        )
        return state, nonce, verifier

    # ---- asking the provider

    async def _asked_provider(self) -> Mapping[str, Any]:
        if self._provider is not None and time.monotonic() < self._provider_until_s:
            return self._provider
        issuer = self._options.issuer
        found = await _json("GET", issuer.rstrip("/") + "/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            raise NotSignedIn("The provider calls itself by another name than admin.oidc.issuer.", "issuer")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not isinstance(found.get(name), str) or not _may_be_asked(found[name], issuer):
                raise NotSignedIn(f"The provider tells no usable {name}.", "provider")
        self._provider, self._provider_until_s = found, time.monotonic() + _ASKED_AGAIN_S
        return found

    async def _id_token(self, code: str, verifier: str) -> str:
        provider, options = await self._asked_provider(), self._options
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": options.redirect_uri,
            "client_id": options.client_id,
            "code_verifier": verifier,
        }
        headers = {}
        if options.client_secret:
            methods = provider.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
            if "client_secret_basic" in methods or "client_secret_post" not in methods:
                pair = f"{quote(options.client_id, safe='')}:{quote(options.client_secret, safe='')}"
                headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
            else:
                form["client_secret"] = options.client_secret
        found = await _json("POST", provider["token_endpoint"], form, headers)
        token = found.get("id_token")
        if not isinstance(token, str):
            raise NotSignedIn("The provider gave no ID token.", "id_token")
        return token

    async def _claims(self, token: str, nonce: str) -> Mapping[str, Any]:
        from joserfc import jwt
        from joserfc.errors import JoseError

        registry = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": self._options.issuer},
            aud={"essential": True, "value": self._options.client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        claims: dict[str, Any]
        try:
            claims = (await self._decoded(token)).claims
            registry.validate(claims)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            why = f"id_token: {type(error).__name__}"
            raise NotSignedIn("The provider's ID token cannot be believed.", why) from error
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if several and claims.get("azp") != self._options.client_id:
            raise NotSignedIn("The provider's ID token was made for somebody else.", "id_token: azp")
        if not isinstance(claims["sub"], str) or not claims["sub"]:
            raise NotSignedIn("The provider's ID token says not who you are.", "id_token: sub")
        return claims

    async def _decoded(self, token: str) -> Any:
        from joserfc import jwt
        from joserfc.errors import JoseError

        if self._keys is not None:
            try:
                return jwt.decode(token, self._keys, algorithms=list(_ALGORITHMS))
            except (JoseError, ValueError):
                # Perhaps it was signed with a newer key.
                if time.monotonic() - self._keys_at_s < _KEYS_AGAIN_S:
                    raise
        await self._fetch_keys()
        return jwt.decode(token, self._keys, algorithms=list(_ALGORITHMS))

    async def _fetch_keys(self) -> None:
        from joserfc.jwk import KeySet

        found = await _json("GET", (await self._asked_provider())["jwks_uri"])
        keys = [
            key
            for key in found.get("keys", ())
            if isinstance(key, dict)
            and key.get("kty") in ("RSA", "EC", "OKP")
            and key.get("use", "sig") == "sig"
        ]
        self._keys, self._keys_at_s = KeySet.import_key_set({"keys": keys}), time.monotonic()

    # ---- what the claims say

    def _name(self, claims: Mapping[str, Any]) -> str:
        said = claims.get(self._options.name_claim)
        shown = said if isinstance(said, str) and said and said.isprintable() else claims["sub"]
        whole = f"{self._options.issuer}\0{claims['sub']}".encode("utf-8", "surrogatepass")
        kept = "".join(character for character in shown[:_SHOWN_NAME] if character.isprintable())
        return f"oidc:{kept}:{hashlib.sha256(whole).hexdigest()[:12]}"

    def _role(self, claims: Mapping[str, Any]) -> str:
        value: Any = claims
        for part in self._options.role_claim.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        values = value if isinstance(value, list) else [value]
        given = [
            self._options.roles[one] for one in values if isinstance(one, str) and one in self._options.roles
        ]
        if not given and self._options.default_role is None:
            raise NotSignedIn("The provider gives you no role here. Ask an operator.", "role")
        ranked = [Role(role) for role in given] or [Role(self._options.default_role)]
        return max(ranked, key=lambda role: role.rank).value


def _may_be_asked(url: str, issuer: str) -> bool:
    """Whether an address is HTTPS's; of a provider on this machine HTTP's will do."""
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        return False
    return scheme == "https" or (scheme == "http" and issuer.startswith("http://"))


async def _json(
    method: str, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    """A provider's JSON object. Follows no redirect. Raises NotSignedIn."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(
                method,
                url,
                data=form,
                headers={"Accept": "application/json", **(headers or {})},
                allow_redirects=False,
            ) as answer,
        ):
            if answer.status != 200:
                raise NotSignedIn("The provider refused to answer.", f"provider: {answer.status}")
            body = await answer.content.read(_MOST_BYTES + 1)
            while not answer.content.at_eof() and len(body) <= _MOST_BYTES:
                body += await answer.content.read(_MOST_BYTES)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise NotSignedIn("The provider cannot be reached.", f"provider: {type(error).__name__}") from error
    return _object(body)


def _object(body: bytes) -> Mapping[str, Any]:
    import orjson

    try:
        found = orjson.loads(body) if len(body) <= _MOST_BYTES else None
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise NotSignedIn("The provider's answer cannot be read.", "provider: JSON")
    return found
