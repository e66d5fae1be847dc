"""Names the contributor of an example within a tenant by an opaque name, so that contributions can be limited and deleted.

`<key id>/<digest of the user>`, either part empty when unknown. The digest is an HMAC with the installation's secret over
tenant and user: the same user has different names in two tenants. Stores nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from store.people.secret import derive

_DIGEST_CHARACTERS = 24
USER_FIELDS = ("safety_identifier", "user")
"""OpenAI's field names for the person behind a request; the first is to replace the second."""


def user_of(fields: Mapping[str, Any]) -> str:
    """The user that a request body names; empty if it names none."""
    return next((v for name in USER_FIELDS if isinstance(v := fields.get(name), str) and v), "")


def contributor(secret: bytes, tenant: str, key_id: str | None, user: str) -> str:
    """The contributor's name; empty when neither key nor user is known."""
    digest = user_digest(secret, tenant, user) if user else ""
    return f"{key_id or ''}/{digest}" if key_id or digest else ""


def user_digest(secret: bytes, tenant: str, user: str) -> str:
    """The part of a contributor's name that stands for the user: 24 hexadecimal characters."""
    return derive(secret, "user of a tenant", f"{tenant}\0{user}")[:_DIGEST_CHARACTERS]


def is_from(name: str, *, key_id: str | None = None, digest: str | None = None) -> bool:
    """Whether the contributor `name` has that key, or that user's digest. Without either nobody matches."""
    key, _, user = name.partition("/")
    return bool(key_id and key == key_id) or bool(digest and user == digest)
