"""Which tenant a command means: by the name its keys were made for, or by the id that logs show."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gateway.keys import DEFAULT_TENANT
from store import Store
from store.people.keys import KeyStore
from store.people.secret import tenant_id

_ID = re.compile(r"[0-9a-f]{32}|default")
F = TypeVar("F", bound=Callable[..., Any])


class NoSuchTenant(Exception):
    """No tenant is called this. The text names the ones there are."""


def tenant_option(purpose: str) -> Callable[[F], F]:
    """`--tenant NAME`."""
    return click.option("--tenant", metavar="NAME", help=f"{purpose} A name as in `keys create`, or id:HEX.")


def tenant_of_client(store: Store, api_key: str, variable: str) -> str:
    """The id of the tenant of a client that sends this `api_key`. Raises NoSuchTenant."""
    if not api_key:
        raise NoSuchTenant(f"the environment variable {variable} is not set, or empty")
    if not store.keys.any_configured():
        return tenant_id(store.secret, api_key)
    key = store.keys.lookup(api_key)
    if key is None:
        raise NoSuchTenant(f"what {variable} holds is no key of this gateway, or one that was revoked")
    return key.tenant


def tenant_named(keys: KeyStore, name: str) -> str:
    """The tenant's id. Raises NoSuchTenant: nothing is ever put under, or deleted for, a name mistyped.

    `default` is the tenant of requests without any credential while no key was made.
    """
    if name.startswith("id:"):
        if not _ID.fullmatch(name[3:]):
            raise NoSuchTenant(f"{name!r} is not an id: 32 hexadecimal digits after 'id:' are right")
        return name[3:]
    known = {key.tenant_name: key.tenant for key in keys.list()}
    if name in known:
        return known[name]
    if not known and name == DEFAULT_TENANT:
        return DEFAULT_TENANT
    names = ", ".join(sorted(known)) or "no key was made yet"
    raise NoSuchTenant(
        f"no key belongs to a tenant {name!r} ({names}); `understudy keys create --tenant` makes one"
    )
