"""A small OpenID provider over real sockets: it signs one person in at once, and can be made to misbehave."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey
from yarl import URL

from tests.aiohttp_server import aiohttp_server

CLIENT, SECRET = "understudy", "provider-secret-canary"


@dataclass
class Provider:
    """`claims` go into the ID token over its own; `signs` and `algorithm` say how it is signed."""

    url: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"}))
    signs: Any = None
    algorithm: str = "RS256"
    issuer: str = ""
    """Of the discovery document, where it lies."""
    returns_to: str = ""
    """Origin that browsers are sent back to, in the place of the registered one: its port may be known later."""
    error: str = ""
    """Refuses to sign anybody in."""
    token: Any = None
    """What the token endpoint gives in the place of its own answer."""
    asked: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        match request.path:
            case "/.well-known/openid-configuration":
                return web.json_response(
                    {
                        "issuer": self.issuer or self.url,
                        "authorization_endpoint": f"{self.url}/authorize",
                        "token_endpoint": f"{self.url}/token",
                        "jwks_uri": f"{self.url}/keys",
                    }
                )
            case "/authorize":
                return self._authorize(request)
            case "/token":
                return await self._token(request)
            case "/keys":
                return web.json_response({"keys": [self.key.as_dict(private=False) | {"kid": self.key.kid}]})
        raise web.HTTPNotFound

    def _authorize(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        assert asked["response_type"] == "code" and asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256" and "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        answer = {"error": self.error} if self.error else {"code": code, "iss": self.url}
        back = URL(asked["redirect_uri"])
        if self.returns_to:
            back = URL(self.returns_to).with_path(back.path)
        return web.Response(
            status=302,
            headers={"Location": str(back.update_query(state=asked["state"], **answer))},
        )

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        pair = base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode()
        assert pair == f"{CLIENT}:{SECRET}"
        asked = self.codes.pop(str(form["code"]), None)
        digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        if (
            asked is None
            or form["redirect_uri"] != asked["redirect_uri"]
            or _encoded(digest) != asked["code_challenge"]
        ):
            return web.json_response({"error": "invalid_grant"}, status=400)
        if self.token is not None:
            return web.json_response(self.token)
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "sub": "248289761001",
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            "email": "ann@example.org",
            "groups": ["everybody", "sre"],
        } | self.claims
        claims = {name: value for name, value in claims.items() if value is not None}
        return web.json_response(
            {"access_token": "a", "token_type": "Bearer", "id_token": self.signed(claims)}
        )

    def signed(self, claims: dict[str, Any]) -> str:
        """An ID token. `none` has no signature, HS256 the public key as its shared secret."""
        if self.algorithm in ("none", "HS256"):
            text = f"{_part({'alg': self.algorithm, 'kid': self.key.kid})}.{_part(claims)}"
            digest = hmac.digest(self.key.as_pem(private=False), text.encode(), "sha256")
            return f"{text}.{_encoded(digest) if self.algorithm == 'HS256' else ''}"
        header = {"alg": self.algorithm, "kid": self.key.kid}
        return jwt.encode(header, claims, self.signs or self.key, algorithms=[self.algorithm])


def _part(value: dict[str, Any]) -> str:
    return _encoded(json.dumps(value).encode())


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    """A running one."""
    made = Provider()
    async with aiohttp_server(made.handle) as origin:
        made.url = origin
        yield made
