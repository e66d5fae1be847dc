"""Passwords of the admin pages: hashed with Argon2id (RFC 9106) on their own thread, never on the event loop."""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

_HASHER = PasswordHasher()
"""The library's defaults follow RFC 9106's second recommendation: 64 MiB, three passes."""
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Letters and digits without those that are easily mistaken for others."""
LEAST_CHARACTERS = 12


def new_password() -> str:
    """A random password for a person to type: five groups of five characters, 123 bits."""
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(5)) for _ in range(5))


def hashed(password: str) -> str:
    """The hash with its salt and parameters. Takes tens of milliseconds and 64 MiB. Raises ValueError for a short
    password."""
    if len(password) < LEAST_CHARACTERS or len(password) > 1024:
        raise ValueError(f"the password has {len(password)} characters: {LEAST_CHARACTERS} to 1024 are right")
    return _HASHER.hash(password)


def matches(password_hash: str, password: str) -> bool:
    """Whether the password belongs to the hash; False for an invalid hash."""
    try:
        return _HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


def wants_rehash(password_hash: str) -> bool:
    """Whether the hash was made with weaker parameters than now."""
    return _HASHER.check_needs_rehash(password_hash)


@lru_cache(maxsize=1)
def _nobodys_hash() -> str:
    return hashed(new_password())


def _matches_or_takes_as_long(password_hash: str | None, password: str) -> bool:
    return matches(password_hash or _nobodys_hash(), password) and password_hash is not None


class PasswordCheck:
    """Checks passwords one at a time: many sign-ins at once must not take gigabytes."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="password")

    async def matches(self, password_hash: str | None, password: str) -> bool:
        """Whether the password matches. For an account that does not exist (None) it takes as long, and is False."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._thread, _matches_or_takes_as_long, password_hash, password[:1024]
        )

    def close(self) -> None:
        """Ends the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
