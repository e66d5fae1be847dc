"""`understudy admin password|users|remove`: who may sign in to the admin pages."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from store.people.operators import ROLES
from understudy.commands.data_folder import data_option, store_in


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
            made = store.operators.put(user, role, digest)
    except ValueError as error:
        click.echo(f"understudy: {error}", err=True)
        sys.exit(2)
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
    """Delete an account; its sessions end."""
    with store_in(data) as store:
        if not store.operators.remove(user):
            click.echo(f"understudy: there is no account {user!r}", err=True)
            sys.exit(2)
    click.echo(f"removed {user}")
