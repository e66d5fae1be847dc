"""`understudy admin password|users|remove|token`: who may sign in to the admin pages, and which programs may ask."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from store.people.limits import told
from store.people.operators import ROLES, LastOperator
from store.people.tokens import NoSuchToken
from understudy.commands.auditing import note
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.giving_up import give_up
from understudy.commands.terms_options import moment


@click.group()
def admin() -> None:
    """Who may sign in to the admin pages. A running gateway follows at once."""


@admin.command()
@data_option()
@click.option("--user", default="operator", show_default=True, help="Whose; made if there is none.")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    help="viewer sees figures, viewer-content texts too, operator changes things [operator for a new account].",
)
@click.option(
    "--stdin",
    "from_stdin",
    is_flag=True,
    help="Read the password from standard input instead of drawing one.",
)
def password(data: Path, user: str, role: str | None, from_stdin: bool) -> None:
    """Set a new password, and print it, this once, unless it was given. The account's sessions end."""
    from admin.passwords import hashed, new_password

    chosen = sys.stdin.readline().rstrip("\r\n") if from_stdin else new_password()
    try:
        digest = hashed(chosen)
        with store_in(data, create=True) as store:
            before = store.operators.get(user)
            made = store.operators.put(user, role, digest)
            old = {} if before is None else {"old": before.role}
            note(store, "admin/password", made.name, {"role": {**old, "new": made.role}})
    except (ValueError, LastOperator) as error:
        give_up(str(error))
    if not from_stdin:
        click.echo(chosen)
    click.echo(f"The password of {made.name!r}, role {made.role}. Only a hash of it is stored.", err=True)


@admin.command()
@data_option()
def users(data: Path) -> None:
    """List accounts and their roles."""
    with store_in(data) as store:
        found = store.operators.list()
    for user in found:
        since = datetime.fromtimestamp(user.changed_at_s, UTC).date()
        click.echo(f"{user.name:24}  {user.role:14}  password of {since}")
    if not found:
        click.echo("nobody can sign in; `understudy admin password` makes an account", err=True)


@admin.command()
@data_option()
@click.argument("user")
def remove(data: Path, user: str) -> None:
    """Delete an account; its sessions end. The only operator's stays."""
    with store_in(data) as store:
        try:
            removed = store.operators.remove(user)
        except LastOperator as error:
            give_up(str(error))
        if not removed:
            give_up(f"there is no account {user!r}")
        note(store, "admin/remove", user, {})
    click.echo(f"removed {user}")


@admin.group()
def token() -> None:
    """Tokens with which programs use the admin API. None of them is an API key for requests to models."""


@token.command("create")
@data_option()
@click.option("--name", default="program", show_default=True, help="Whose; the audit log names it.")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="viewer",
    show_default=True,
    help="viewer reads, operator changes keys and tenants.",
)
@click.option("--expires", metavar="WHEN", help="When it ends: 90d, or a date such as 2027-01-31.")
def create_token(data: Path, name: str, role: str, expires: str | None) -> None:
    """Make a token and print it, this once."""
    until_s = moment(expires, "--expires") if expires is not None else None
    with store_in(data, create=True) as store:
        try:
            made, secret = store.admin_tokens.create(name, role, until_s)
        except ValueError as error:
            give_up(str(error))
        note(store, "admin/token/create", made.id, {"name": name, "role": role, "expires_at": told(until_s)})
    click.echo(secret)
    click.echo(
        f"Token {made.id}, role {made.role}. It is not shown again: only a keyed hash of it is stored.",
        err=True,
    )


@token.command("list")
@data_option()
def list_tokens(data: Path) -> None:
    """List tokens, without their secrets."""
    with store_in(data) as store:
        for one in store.admin_tokens.list():
            state = (
                "revoked"
                if one.revoked_at_s is not None
                else "until " + (told(one.expires_at_s) or "revoked")
            )
            click.echo(f"{one.id}  {one.prefix}...  {one.role:14}  {state:28}  {one.name}")


@token.command("revoke")
@data_option()
@click.argument("token_id")
def revoke_token(data: Path, token_id: str) -> None:
    """Revoke a token at once."""
    with store_in(data) as store:
        try:
            store.admin_tokens.revoke(token_id)
        except NoSuchToken as error:
            give_up(f"{error}; `understudy admin token list` shows them")
        note(store, "admin/token/revoke", token_id, {})
    click.echo(f"revoked {token_id}")
