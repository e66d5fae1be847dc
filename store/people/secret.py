"""The installation's secret, and the names derived from it. Knows no key and no tenant by itself."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from store.database import COMMITTED_WITHIN_S
from store.errors import BadSecretFile

if TYPE_CHECKING:
    from store.database import Database

TOKEN_PREFIX = "us-admin-"
"""How every token of the admin API begins. Where requests to models come in it is refused: none reaches an upstream."""
_SECRET_BYTES = 32
_FILE_NAME = "secret"
_CHECK = "secret_check"
_NOTE_CHECK = "INSERT INTO generations (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_USER_CHARACTERS = 24
_REMEMBERED_CHARACTERS = 512
"""Longer texts are derived from anew each time: a client must not fill our memory with its own."""


def load_or_create_secret(data_folder: Path, *, create: bool = True) -> bytes:
    """The 32 bytes in `<data_folder>/secret`, drawn and written (mode 0600) by whoever comes first.

    `create` is for a new folder: a database whose secret is missing must not get another.

    Of several processes that start at once all get the same secret. Losing the file makes every issued key invalid
    and every tenant that was named by its own key a stranger, so a damaged file is an error and never replaced.

    Raises BadSecretFile or OSError.
    """
    data_folder.mkdir(parents=True, exist_ok=True)
    path = data_folder / _FILE_NAME
    with contextlib.suppress(FileNotFoundError):
        return _read(path)
    if not create:
        raise BadSecretFile(
            f"{path} is missing, and without it no key and no tenant of this folder's database is known: restore it from a"
            " copy, or move the whole folder away to begin anew"
        )
    descriptor, temporary = tempfile.mkstemp(prefix=".secret-", dir=data_folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, fails if another process was first: its secret then holds for both.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        Path(temporary).unlink()
    sync_folder(data_folder)
    return _read(path)


def check_secret_of(db: Database, secret: bytes) -> None:
    """Note the secret's check value in a database that several folders share, or compare it. Blocks.

    48 bits of an HMAC: whoever reads the database learns nothing of the secret. Raises BadSecretFile where the database
    was used with another secret, and what reading and writing raise.
    """
    value = int(derive(secret, "check value", "")[:12], 16)
    # Not a counter that moves, but the table is the same: a name and a number.
    query = "SELECT value FROM generations WHERE name = ?"
    known = db.read().execute(query, (_CHECK,)).fetchone()
    if known is None:
        db.write(lambda c: c.execute(_NOTE_CHECK, (_CHECK, value)).rowcount).result(COMMITTED_WITHIN_S)
        known = db.read().execute(query, (_CHECK,)).fetchone()
    if known is None or known[0] != value:
        raise BadSecretFile(
            f"the file {_FILE_NAME} in memory.data_dir is not the one that this database was first used with: its keys and"
            " tenants are not known by it. Copy the file from a gateway that serves"
        )


def tenant_id(secret: bytes, text: str) -> str:
    """The tenant behind a credential: 32 hex characters that say nothing of `text` without the secret.

    HMAC-SHA256 (RFC 2104), truncated to 128 bits.
    """
    return derive(secret, "tenant of a credential", text)[:32]


def user_digest(secret: bytes, tenant: str, user: str) -> str:
    """What stands for an end user of a tenant: 24 hexadecimal characters. `user`: as the client names them."""
    return derive(secret, "user of a tenant", f"{tenant}\0{user}")[:_USER_CHARACTERS]


def derive(secret: bytes, purpose: str, text: str) -> str:
    """HMAC-SHA256 of a text for one purpose, 64 hex characters; the same text gives another value for another purpose."""
    short = len(text) <= _REMEMBERED_CHARACTERS
    return _derived(secret, purpose, text) if short else _derived.__wrapped__(secret, purpose, text)


@lru_cache(maxsize=4096)
def _derived(secret: bytes, purpose: str, text: str) -> str:
    message = purpose.encode() + b"\0" + text.encode("utf-8", "surrogatepass")
    return hmac.digest(secret, message, "sha256").hex()


def sync_folder(folder: Path) -> None:
    """Make a rename or link in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    secret = path.read_bytes()
    if len(secret) != _SECRET_BYTES:
        raise BadSecretFile(
            f"{path} holds {len(secret)} bytes where {_SECRET_BYTES} are right: restore it from a copy, "
            "or remove it, which makes every issued key invalid"
        )
    return secret
