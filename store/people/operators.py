"""People who may sign in to the admin pages. Knows no password, only its hash, and nothing of what a role allows."""

from __future__ import annotations

import time
from dataclasses import dataclass

from store.database import COMMITTED_WITHIN_S, Connection, Database

ROLES = ("viewer", "viewer-content", "operator")
NO_PASSWORD = "none"
"""Stands for the hash of an account that another service signs in."""


@dataclass(frozen=True, slots=True)
class AdminUser:
    """One person's account."""

    name: str
    role: str
    password_hash: str
    created_at_s: float
    changed_at_s: float


class LastOperator(Exception):
    """Without this account nobody could change anything on the admin pages; nothing was changed."""


class NoSuchUser(Exception):
    """There is no account of this name."""


class AccountChanged(Exception):
    """Somebody else changed the account since it was looked at; nothing was changed. `now`: how it is."""

    def __init__(self, now: AdminUser) -> None:
        super().__init__(f"the account {now.name!r} was changed meanwhile")
        self.now = now


class AdminUsers:
    """Accounts of the admin pages. What writes waits for the commit."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def any(self) -> bool:
        """Whether anybody could sign in."""
        return self._db.read().execute("SELECT 1 FROM admin_users LIMIT 1").fetchone() is not None

    def get(self, name: str) -> AdminUser | None:
        """One account, or None."""
        row = self._db.read().execute(_SELECT + " WHERE name = ?", (name,)).fetchone()
        return AdminUser(*row) if row is not None else None

    def list(self) -> list[AdminUser]:
        """Every account by name."""
        return [AdminUser(*row) for row in self._db.read().execute(_SELECT + " ORDER BY name").fetchall()]

    def put(
        self,
        name: str,
        role: str | None,
        password_hash: str,
        *,
        new: bool = False,
        as_of_s: float | None = None,
    ) -> AdminUser:
        """Create an account, or change its password (and its role, if one is given). Its sessions end.

        A new account without a role becomes an operator. `new`: there must be none of this name. `as_of_s`: its
        `changed_at_s` when somebody decided on this. Raises ValueError for a name or role that cannot be one, LastOperator
        and AccountChanged.
        """
        if not name or len(name) > 64 or not all(c.isalnum() or c in "-_.@" for c in name):
            raise ValueError(
                f"the user name is {name!r}: 1 to 64 letters, digits, '-', '_', '.', '@' are right"
            )
        if role is not None and role not in ROLES:
            raise ValueError(f"the role is {role!r}: one of {', '.join(ROLES)} is right")
        now_s = time.time()

        def write(connection: Connection) -> AdminUser:
            self._db.hold(connection, _HELD)
            if new and connection.execute(_SELECT + " WHERE name = ?", (name,)).fetchone() is not None:
                raise ValueError(f"there is an account {name!r} already")
            _check_unchanged(connection, name, as_of_s)
            if role not in (None, "operator"):
                _check_another(connection, name)
            connection.execute(_PUT, (name, role or "operator", password_hash, now_s, now_s, role))
            connection.execute("DELETE FROM admin_sessions WHERE user_name = ?", (name,))
            return AdminUser(*connection.execute(_SELECT + " WHERE name = ?", (name,)).fetchone())

        return self._db.write(write).result(COMMITTED_WITHIN_S)

    def put_external(self, name: str, role: str) -> None:
        """An account that another service signs in, and no password does; gives it this role. Its sessions go on.

        Raises ValueError for a role that cannot be one, and for the name of an account with a password.
        """
        if role not in ROLES:
            raise ValueError(f"the role is {role!r}: one of {', '.join(ROLES)} is right")
        now_s = time.time()

        def write(connection: Connection) -> bool:
            changed: int = connection.execute(_PUT_EXTERNAL, (name, role, NO_PASSWORD, now_s, now_s)).rowcount
            return changed == 1

        if not self._db.write(write).result(COMMITTED_WITHIN_S):
            raise ValueError(f"the account {name!r} has a password")

    def add_first(self, name: str, password_hash: str) -> bool:
        """Create the first operator; False when there is an account already, also when another process was faster."""
        now_s = time.time()

        def write(connection: Connection) -> bool:
            self._db.hold(connection, _HELD)
            return (
                connection.execute(
                    "INSERT INTO admin_users (name, role, password_hash, created_at_s, changed_at_s)"
                    " SELECT ?, 'operator', ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM admin_users)",
                    (name, password_hash, now_s, now_s),
                ).rowcount
                == 1
            )

        return self._db.write(write).result(COMMITTED_WITHIN_S)

    def remove(self, name: str) -> bool:
        """Delete an account and its sessions; False if there was none. Raises LastOperator."""

        def write(connection: Connection) -> bool:
            self._db.hold(connection, _HELD)
            _check_another(connection, name)
            return connection.execute("DELETE FROM admin_users WHERE name = ?", (name,)).rowcount == 1

        return self._db.write(write).result(COMMITTED_WITHIN_S)

    def set_role(self, name: str, role: str, *, as_of_s: float | None = None) -> tuple[str, str]:
        """Give an account another role, in its open sessions too; gives the role it had, and has.

        `as_of_s`: as in `put`. Raises NoSuchUser, LastOperator, AccountChanged, and ValueError for a wrong role.
        """
        if role not in ROLES:
            raise ValueError(f"the role is {role[:60]!r}: one of {', '.join(ROLES)} is right")
        now_s = time.time()

        def write(connection: Connection) -> tuple[str, str]:
            self._db.hold(connection, _HELD)
            row = connection.execute(_SELECT + " WHERE name = ?", (name,)).fetchone()
            if row is None:
                raise NoSuchUser(f"there is no account {name[:64]!r}")
            if role != "operator":
                _check_another(connection, name)
            _check_unchanged(connection, name, as_of_s)
            connection.execute(
                "UPDATE admin_users SET role = ?, changed_at_s = ? WHERE name = ? AND role <> ?",
                (role, now_s, name, role),
            )
            return AdminUser(*row).role, role

        return self._db.write(write).result(COMMITTED_WITHIN_S)

    def rehash(self, name: str, old_hash: str, new_hash: str) -> None:
        """Put a stronger hash of the same password in place of `old_hash`; sessions stay."""
        self._db.write(
            lambda connection: connection.execute(
                "UPDATE admin_users SET password_hash = ? WHERE name = ? AND password_hash = ?",
                (new_hash, name, old_hash),
            )
        ).result(COMMITTED_WITHIN_S)


_SELECT = "SELECT name, role, password_hash, created_at_s, changed_at_s FROM admin_users"
_PUT = (
    "INSERT INTO admin_users (name, role, password_hash, created_at_s, changed_at_s) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET password_hash = excluded.password_hash, changed_at_s = excluded.changed_at_s,"
    " role = coalesce(?, admin_users.role)"
)
_PUT_EXTERNAL = (
    "INSERT INTO admin_users (name, role, password_hash, created_at_s, changed_at_s) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET role = excluded.role, changed_at_s = excluded.changed_at_s"
    " WHERE admin_users.password_hash = excluded.password_hash"
)
_HELD = "admin_users"
_OPERATORS = "SELECT name FROM admin_users WHERE role = 'operator' ORDER BY name LIMIT 2"


def _check_unchanged(connection: Connection, name: str, as_of_s: float | None) -> None:
    """Raises AccountChanged where the account was changed since."""
    row = connection.execute(_SELECT + " WHERE name = ?", (name,)).fetchone()
    if as_of_s is not None and row is not None and AdminUser(*row).changed_at_s != as_of_s:
        raise AccountChanged(AdminUser(*row))


def _check_another(connection: Connection, name: str) -> None:
    """Raises LastOperator for the only operator's name."""
    if connection.execute(_OPERATORS).fetchall() == [(name,)]:
        raise LastOperator(
            f"{name!r} is the only operator: without it nobody could change anything here. Make another operator first"
        )
