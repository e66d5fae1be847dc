"""`understudy keys create|list|revoke`: the gateway's own API keys, and so its tenants."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from learning.bank.left_behind import left_behind
from store.people.keys import KeyStore, NoSuchKey
from understudy.commands.data_folder import store_in

_DATA = click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    help="The gateway's data folder (memory.data_dir).",
)


@click.group()
def keys() -> None:
    """Create, list and revoke API keys. Once there is one, every request needs a valid key."""


@keys.command()
@_DATA
@click.option(
    "--tenant", default="default", show_default=True, help="Whose key it is; keys of one tenant share memory."
)
@click.option("--name", default="unnamed", show_default=True, help="A note for people.")
def create(data: Path, tenant: str, name: str) -> None:
    """Create a key and print it, this once."""
    with store_in(data, create=True) as store:
        first = not store.keys.any_configured()
        key, secret = store.keys.create(tenant, name)
        click.echo(secret)
        click.echo(
            f"Key {key.id} of tenant '{tenant}'. It is not shown again: only a keyed hash of it is stored.",
            err=True,
        )
        if first:
            for line in left_behind(store, tenant):
                click.echo(line, err=True)


@keys.command("list")
@_DATA
def list_(data: Path) -> None:
    """List keys, without their secrets."""
    with _keys(data) as found:
        for key in found.list():
            since = datetime.fromtimestamp(key.created_at_s, UTC).date()
            state = "revoked" if key.revoked_at_s else "active"
            click.echo(
                f"{key.id}  {key.prefix}...  {state:8} since {since}  tenant {key.tenant_name}  {key.name}".rstrip()
            )


@keys.command()
@_DATA
@click.argument("key_id")
def revoke(data: Path, key_id: str) -> None:
    """Revoke a key. Running gateways refuse it within about a second."""
    with _keys(data) as found:
        try:
            found.revoke(key_id).result(timeout=30)
        except NoSuchKey:
            click.echo(f"understudy: there is no key {key_id!r}; `understudy keys list` shows them", err=True)
            sys.exit(2)
        click.echo(f"revoked {key_id}")


@contextmanager
def _keys(data: Path) -> Iterator[KeyStore]:
    with store_in(data, create=True) as store:
        yield store.keys
