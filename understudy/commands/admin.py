"""`understudy admin password|users|remove|token`: who may sign in to the admin pages, and which programs may ask."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click

from admin.operations.access import create_token, remove_account, revoke_token, set_password
from admin.page import Asked, Summary
from admin.sources import Sources
from understudy.commands.made import Given, command, reading
from understudy.commands.terms_options import moment

_FROM_STDIN = click.Option(
    ["--stdin"], is_flag=True, help="Read the password from standard input instead of drawing one."
)
_EXPIRES = click.Option(
    ["--expires"], metavar="WHEN", help="When it ends: 90d, or a date such as 2027-01-31."
)


@click.group()
def admin() -> None:
    """Who may sign in to the admin pages. A running gateway follows at once."""


@admin.group()
def token() -> None:
    """Tokens with which programs use the admin API. None of them is an API key for requests to models."""


def accounts(sources: Sources, asked: Asked) -> Summary:
    """Every account and its role."""
    return {
        "accounts": [
            {"name": user.name, "role": user.role, "changed_at_s": user.changed_at_s}
            for user in sources.store.operators.list()
        ]
    }


def tokens(sources: Sources, asked: Asked) -> Summary:
    """Every token, without its secret."""
    return {"tokens": [asdict(one) for one in sources.store.admin_tokens.list()]}


def _password(given: Given) -> dict[str, Any]:
    chosen = {"password": sys.stdin.readline().rstrip("\r\n")} if given["stdin"] else {}
    return {name: given[name] for name in ("user", "role")} | chosen


def _token(given: Given) -> dict[str, Any]:
    expires = given["expires"]
    until = {} if expires is None else {"expires_at_s": moment(expires, "--expires")}
    return {name: given[name] for name in ("name", "role")} | until


admin.add_command(command(set_password, more=[_FROM_STDIN], given=_password, creates=True))
admin.add_command(command(remove_account))
admin.add_command(
    reading(
        "users",
        "List accounts and their roles.",
        accounts,
        rows="accounts",
        tables={"accounts": ("name", "role", "changed_at_s")},
        nothing="nobody can sign in; `understudy admin password` makes an account",
    )
)
token.add_command(command(create_token, more=[_EXPIRES], given=_token, creates=True))
token.add_command(command(revoke_token))
token.add_command(
    reading(
        "list",
        "List tokens, without their secrets.",
        tokens,
        rows="tokens",
        tables={"tokens": ("id", "prefix", "role", "expires_at_s", "revoked_at_s", "name")},
        nothing="there is no token yet",
    )
)
