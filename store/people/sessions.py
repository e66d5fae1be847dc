"""Who is signed in to the admin pages. Keeps keyed hashes of cookies: whoever reads the database can sign in as nobody."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from store.database import COMMITTED_WITHIN_S, Connection, Database
from store.people.secret import derive

_SHOWN_DIGITS = 16
"""Of a cookie's hash, which is as good as all of it for telling sessions apart."""
_SEEN_EVERY_S = 30.0
"""How exactly it is known when a session was last used: a write per page view would be too much."""
_REMEMBERED_S = 86_400.0
"""For how long it is known whose a session was that has ended by time: a form that comes too late is kept for its writer."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Whose session it is, and what they may do."""

    user: str
    role: str
    created_at_s: float
    seen_at_s: float


class OpenSession(NamedTuple):
    """One session as others may see it."""

    id: str
    """For `end_one`; nobody gets a cookie from it."""
    user: str
    created_at_s: float
    seen_at_s: float


class AdminSessions:
    """Opens, recognises and ends sessions. What writes waits for the commit."""

    def __init__(
        self,
        db: Database,
        secret: bytes,
        *,
        idle_s: float = 3600.0,
        longest_s: float = 12 * 3600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """A session ends `idle_s` after it was last used, and `longest_s` after it was opened in any case."""
        self._db = db
        self._secret = secret
        self._idle_s = idle_s
        self.longest_s = longest_s
        self._clock = clock

    def open(self, user: str, *, instead_of: str | None = None) -> str:
        """A new session for a user whose password was right; gives the cookie, which is nowhere else.

        `instead_of`: the cookie the browser came with, which is worth nothing from now on.
        """
        token = secrets.token_urlsafe(32)
        now_s = self._clock()
        old = self._hash(instead_of) if instead_of else ""

        def write(connection: Connection) -> None:
            connection.execute(
                "DELETE FROM admin_sessions WHERE id_hash = ? OR seen_at_s < ? OR created_at_s < ?",
                (old, now_s - self._idle_s - _REMEMBERED_S, now_s - self.longest_s - _REMEMBERED_S),
            )
            connection.execute(
                "INSERT INTO admin_sessions (id_hash, user_name, created_at_s, seen_at_s) VALUES (?, ?, ?, ?)",
                (self._hash(token), user, now_s, now_s),
            )

        self._db.write(write).result(COMMITTED_WITHIN_S)
        return token

    def find(self, token: str, *, touch: bool = True) -> SignedIn | None:
        """Whose session a cookie is; None for an unknown, idle or old one. `touch` keeps it from becoming idle."""
        hashed, now_s = self._hash(token), self._clock()
        row = (
            self._db.read()
            .execute(
                "SELECT u.name, u.role, s.created_at_s, s.seen_at_s FROM admin_sessions s"
                " JOIN admin_users u ON u.name = s.user_name WHERE s.id_hash = ?",
                (hashed,),
            )
            .fetchone()
        )
        if row is None:
            return None
        found = SignedIn(*row)
        if now_s - found.seen_at_s > self._idle_s or now_s - found.created_at_s > self.longest_s:
            return None
        if touch and now_s - found.seen_at_s > min(_SEEN_EVERY_S, self._idle_s / 4):
            self._db.write(
                lambda connection: connection.execute(
                    "UPDATE admin_sessions SET seen_at_s = ? WHERE id_hash = ?", (now_s, hashed)
                )
            )
        return found

    def whose(self, token: str) -> str:
        """The account of a session that may have ended by time, for a day; empty for an unknown one. Opens nothing."""
        row = (
            self._db.read()
            .execute("SELECT user_name FROM admin_sessions WHERE id_hash = ?", (self._hash(token),))
            .fetchone()
        )
        return "" if row is None else str(row[0])

    def end(self, token: str) -> None:
        """Sign out."""
        hashed = self._hash(token)
        self._db.write(
            lambda connection: connection.execute("DELETE FROM admin_sessions WHERE id_hash = ?", (hashed,))
        ).result(COMMITTED_WITHIN_S)

    def open_ones(self) -> list[OpenSession]:
        """Every session that has not ended, by account, the latest used first."""
        now_s = self._clock()
        rows = self._db.read().execute(
            "SELECT id_hash, user_name, created_at_s, seen_at_s FROM admin_sessions"
            " WHERE seen_at_s >= ? AND created_at_s >= ? ORDER BY user_name, seen_at_s DESC, id_hash",
            (now_s - self._idle_s, now_s - self.longest_s),
        )
        return [OpenSession(hashed[:_SHOWN_DIGITS], *row) for hashed, *row in rows.fetchall()]

    def end_one(self, user: str, id: str) -> bool:
        """End somebody's session by its id; False where there is none."""
        return self._end(f"user_name = ? AND substr(id_hash, 1, {_SHOWN_DIGITS}) = ?", (user, id)) > 0

    def end_all(self, user: str) -> int:
        """End somebody's sessions; gives how many."""
        return self._end("user_name = ?", (user,))

    def _end(self, where: str, values: tuple[object, ...]) -> int:
        statement = f"DELETE FROM admin_sessions WHERE {where}"  # noqa: S608 - our own conditions
        return self._db.write(lambda connection: connection.execute(statement, values).rowcount).result(
            COMMITTED_WITHIN_S
        )

    def form_token(self, cookie: str) -> str:
        """What a form of this session must bring along (CSRF): follows from the cookie, and the cookie not from it."""
        return derive(self._secret, "admin form", cookie)

    def _hash(self, token: str) -> str:
        return derive(self._secret, "admin session", token)
