"""Names who is behind a request by opaque names: what is kept of it can be limited, deleted and kept apart by them.

`<key id>/<digest of the user>`, either part empty when unknown. The digest is an HMAC with the installation's secret over
tenant and user: the same user has different names in two tenants. Stores nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from router.asked import Arrival
from store.people.secret import user_digest as user_digest

USER_FIELDS = ("safety_identifier", "user")
"""OpenAI's field names for the person behind a request; the first is to replace the second."""
USER_HEADER = "x-understudy-user"
"""The same as a header, which comes first, for requests whose body must not be touched or has no such field."""


@dataclass(frozen=True, slots=True)
class UserSources:
    """The places in which a request may name its end user; the first that does counts."""

    names: tuple[str, ...] = (USER_HEADER, *USER_FIELDS)
    """With a hyphen: a header; with a dot: a field of an object in the body (`metadata.user_id`); else one of the body."""

    def user(self, headers: Mapping[str, str], fields: Mapping[str, Any]) -> str:
        """The end user as the client names them; empty if the request names none, or none by a text."""
        for name in self.names:
            value = headers.get(name) if "-" in name else _field(fields, name)
            if value and isinstance(value, str):
                return value
        return ""


def _field(fields: Mapping[str, Any], name: str) -> object:
    first, _, below = name.partition(".")
    value = fields.get(first)
    return value.get(below) if below and isinstance(value, dict) else None if below else value


USUAL_SOURCES = UserSources()


class Behind(NamedTuple):
    """The contributor and the end user behind a request."""

    contributor: str = ""
    """As what is kept of it is marked; empty when neither key nor user is known."""
    end_user: str = ""
    """The end user whose memory alone it reads and writes, as a digest; empty: the memory that the tenant shares."""


NOBODY = Behind()
"""Nobody in particular."""


@dataclass(frozen=True, slots=True)
class EndUsers:
    """Says who is behind a request. `apart`: whether each end user has a memory of their own."""

    secret: bytes
    apart: bool
    sources: UserSources = USUAL_SOURCES

    def behind(self, arrival: Arrival, headers: Mapping[str, str], fields: Mapping[str, Any]) -> Behind:
        """Return who is behind a request, which names its end user in its headers, in its body, or not at all."""
        user = self.sources.user(headers, fields)
        return self.named(arrival.tenant, arrival.key_id, user, apart=self.keeps_apart(arrival))

    def keeps_apart(self, arrival: Arrival) -> bool:
        """Tell if each end user of this request's key has a memory of their own."""
        return arrival.partition == "user" if arrival.partition else self.apart

    def digest(self, tenant: str, user: str) -> str:
        """The name under which a tenant's end user is known; `user`: as the client names them."""
        return user_digest(self.secret, tenant, user)

    def named(self, tenant: str, key_id: str | None, user: str, *, apart: bool | None = None) -> Behind:
        """`user`: as the client names them; empty for nobody in particular. `apart`: None as usual."""
        if not user:
            return Behind(f"{key_id}/") if key_id else NOBODY
        name = contributor(self.secret, tenant, key_id, user)
        return Behind(name, user_part(name) if (self.apart if apart is None else apart) else "")


def user_of(fields: Mapping[str, Any]) -> str:
    """The user that a request body names; empty if it names none."""
    return USUAL_SOURCES.user({}, fields)


def contributor(secret: bytes, tenant: str, key_id: str | None, user: str) -> str:
    """The contributor's name; empty when neither key nor user is known."""
    digest = user_digest(secret, tenant, user) if user else ""
    return f"{key_id or ''}/{digest}" if key_id or digest else ""


def user_part(contributor: str) -> str:
    """The digest of the user in a contributor's name; empty if there is none."""
    return contributor.partition("/")[2]


def is_from(name: str, *, key_id: str | None = None, digest: str | None = None) -> bool:
    """Tell if the contributor `name` has that key, or that user's digest. Without either nobody matches."""
    key, _, user = name.partition("/")
    return bool(key_id and key == key_id) or bool(digest and user == digest)
