"""Who within a tenant an example came from, as a name that tells nothing: so that it can be capped, and deleted.

`<key id>/<digest of the user>`, either part empty when unknown. The digest is an HMAC under the installation's secret, over
the tenant too: the same user in two tenants has two names. Knows no store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from store.people.secret import derive

_DIGEST_CHARACTERS = 24
USER_FIELDS = ("safety_identifier", "user")
"""OpenAI's names for the person behind a request; the first is to replace the second."""


def user_of(fields: Mapping[str, Any]) -> str:
    """The person a request body names, or nothing."""
    return next((v for name in USER_FIELDS if isinstance(v := fields.get(name), str) and v), "")


def contributor(secret: bytes, tenant: str, key_id: str | None, user: str) -> str:
    """The contributor's name; empty when neither key nor user is known."""
    digest = user_digest(secret, tenant, user) if user else ""
    return f"{key_id or ''}/{digest}" if key_id or digest else ""


def user_digest(secret: bytes, tenant: str, user: str) -> str:
    """The part of a contributor's name that stands for a user: 24 hex characters."""
    return derive(secret, "user of a tenant", f"{tenant}\0{user}")[:_DIGEST_CHARACTERS]


def is_from(name: str, *, key_id: str | None = None, digest: str | None = None) -> bool:
    """Whether the contributor `name` has that key, or that user's digest. Naming neither matches nobody."""
    key, _, user = name.partition("/")
    return bool(key_id and key == key_id) or bool(digest and user == digest)
