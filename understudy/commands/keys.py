"""`understudy keys create|edit|rotate|revoke|show|list`: the gateway's own API keys, and so its tenants."""

from __future__ import annotations

import sys
from typing import Any

import click

from admin.operations.keys import create_key, edit_key, revoke_key, rotate_key, show_key
from admin.page import Asked, Summary
from admin.sources import Sources
from store.people.described import described, state_of
from understudy.commands.made import Given, command, reading
from understudy.commands.terms_options import fields, seconds, terms_options

_TENANT = click.Option(
    ["--tenant"],
    default="default",
    show_default=True,
    help="Whose key it is; keys of one tenant share memory.",
)
_FROM_STDIN = click.Option(
    ["--secret-stdin"],
    is_flag=True,
    help="Read the secret from standard input instead of drawing one: clients keep the key that they have.",
)
_GRACE = click.Option(
    ["--grace"],
    default="0",
    show_default=True,
    metavar="TIME",
    help="How long the old secret is still taken: 24h.",
)


@click.group()
def keys() -> None:
    """Create, change and revoke API keys. Once there is one, every request needs a valid key."""


def listed(sources: Sources, asked: Asked) -> Summary:
    """Every key, without its secret."""
    return {
        "keys": [described(key) | {"state": state_of(key, asked.now_s)} for key in sources.store.keys.list()]
    }


def _new(given: Given) -> dict[str, Any]:
    return _key(given) | _secret(given)


def _key(given: Given) -> dict[str, Any]:
    plain = {name: given[name] for name in ("id", "tenant", "name") if given.get(name) is not None}
    return plain | fields(given)


def _rotation(given: Given) -> dict[str, Any]:
    return {"id": given["id"], "grace_s": seconds(given["grace"], "--grace")} | _secret(given)


def _secret(given: Given) -> dict[str, Any]:
    return {"secret": sys.stdin.readline().rstrip("\r\n")} if given["secret_stdin"] else {}


keys.add_command(
    command(
        create_key,
        options=[
            _TENANT,
            click.Option(["--name"], default="unnamed", show_default=True, help="Key name."),
            _FROM_STDIN,
            *terms_options(),
        ],
        given=_new,
        creates=True,
    )
)
keys.add_command(
    command(
        edit_key, options=[click.Option(["--name"], help="Another key name."), *terms_options()], given=_key
    )
)
keys.add_command(command(rotate_key, options=[_GRACE, _FROM_STDIN], given=_rotation))
keys.add_command(command(revoke_key))
keys.add_command(command(show_key))
keys.add_command(
    reading(
        "list",
        "List keys with their tenants, without their secrets.",
        listed,
        rows="keys",
        tables={"keys": ("id", "prefix", "state", "created_at", "expires_at", "source", "tenant", "name")},
        nothing="no key was made yet",
    )
)
