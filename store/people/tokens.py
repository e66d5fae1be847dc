"""Tokens of the admin API. They open no traffic, and no traffic key is one: their hashes are derived for another purpose."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

from store.database import COMMITTED_WITHIN_S, Connection, Database
from store.people.operators import ROLES
from store.people.secret import TOKEN_PREFIX, derive

_SHOWN_CHARACTERS = len(TOKEN_PREFIX) + 4


class NoSuchToken(Exception):
    """No admin token has this id."""


@dataclass(frozen=True, slots=True)
class AdminToken:
    """What a program may do on the admin API. The secret is shown once and never stored."""

    id: str
    name: str
    role: str
    prefix: str
    created_at_s: float
    expires_at_s: float | None = None
    revoked_at_s: float | None = None


class AdminTokens:
    """Makes, finds and revokes tokens. What writes waits for the commit."""

    def __init__(
        self,
        db: Database,
        secret: bytes,
    ) -> None:
        self._db = db
        self._secret = secret

    def create(self, name: str, role: str, expires_at_s: float | None = None) -> tuple[AdminToken, str]:
        """A new token and its secret, which is shown here and never again. Raises ValueError naming what is wrong."""
        if not 0 < len(name) <= 64 or not all(c.isalnum() or c in "-_.@" for c in name):
            raise ValueError(
                f"the token's name is {name[:60]!r}: 1 to 64 letters, digits, '-', '_', '.', '@' are right"
            )
        if role not in ROLES:
            raise ValueError(f"the role is {role[:60]!r}: one of {', '.join(ROLES)} is right")
        now_s = time.time()
        if expires_at_s is not None and not now_s < expires_at_s < 1e11:
            raise ValueError("the token would have expired already: a time to come is right")
        secret_text = TOKEN_PREFIX + secrets.token_urlsafe(32)
        token = AdminToken(
            "token_" + secrets.token_hex(8), name, role, secret_text[:_SHOWN_CHARACTERS], now_s, expires_at_s
        )
        row = (self._hmac(secret_text), *_row(token))
        self._db.write(lambda connection: connection.execute(_INSERT, row)).result(COMMITTED_WITHIN_S)
        return token, secret_text

    def find(self, secret_text: str) -> AdminToken | None:
        """Whose token it is; None for one that is unknown, revoked or expired."""
        row = (
            self._db.read().execute(_SELECT + " WHERE secret_hmac = ?", (self._hmac(secret_text),)).fetchone()
        )
        if row is None:
            return None
        token = AdminToken(*row)
        over = token.expires_at_s is not None and time.time() >= token.expires_at_s
        return None if over or token.revoked_at_s is not None else token

    def list(self) -> list[AdminToken]:
        """Every token ever made, revoked ones too, oldest first."""
        rows = self._db.read().execute(_SELECT + " ORDER BY created_at_s, id").fetchall()
        return [AdminToken(*row) for row in rows]

    def revoke(self, id: str) -> AdminToken:
        """Take a token out of use at once. Revoking twice keeps the first time. Raises NoSuchToken."""
        now_s = time.time()

        def update(connection: Connection) -> AdminToken:
            connection.execute(
                "UPDATE admin_tokens SET revoked_at_s = ? WHERE id = ? AND revoked_at_s IS NULL", (now_s, id)
            )
            row = connection.execute(_SELECT + " WHERE id = ?", (id,)).fetchone()
            if row is None:
                raise NoSuchToken(f"no admin token has the id {id[:60]!r}")
            return AdminToken(*row)

        return self._db.write(update).result(COMMITTED_WITHIN_S)

    def _hmac(self, secret_text: str) -> str:
        return derive(self._secret, "admin token", secret_text)


_SELECT = "SELECT id, name, role, prefix, created_at_s, expires_at_s, revoked_at_s FROM admin_tokens"
_INSERT = (
    "INSERT INTO admin_tokens (secret_hmac, id, name, role, prefix, created_at_s, expires_at_s, revoked_at_s)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


def _row(token: AdminToken) -> tuple[object, ...]:
    expiry = (token.created_at_s, token.expires_at_s, token.revoked_at_s)
    return token.id, token.name, token.role, token.prefix, *expiry
