"""Names conversations by digests: requests with the same one belong together. Who reads the database learns no name."""

from __future__ import annotations

import hashlib

_CHARACTERS = 23
NAMED, BEGINNING = "n", "b"
"""How a digest begins: of a name that the client gave, or of how the conversation begins."""


def named(secret: bytes, name: str) -> str:
    """The digest of a conversation that its client names; 24 characters."""
    return NAMED + _digest(secret, b"session", name)


def beginning(secret: bytes, tenant: str, contributor: str, text: str) -> str:
    """The digest of a conversation whose client does not name it: of who has it, and how it begins."""
    return BEGINNING + _digest(secret, b"beginning", f"{tenant}\0{contributor}\0{text}")


def is_named(session: str) -> bool:
    """Whether the client named the conversation."""
    return session.startswith(NAMED)


def _digest(secret: bytes, purpose: bytes, text: str) -> str:
    said = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(said, key=secret, person=purpose, digest_size=12).hexdigest()[:_CHARACTERS]
