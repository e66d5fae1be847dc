"""`understudy keys create|edit|rotate|revoke|show|list`: the gateway's own API keys, and so its tenants."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from learning.bank.left_behind import left_behind
from store import Store
from store.people.described import changes, described, patched, state_of, terms_of
from store.people.keys import KeptInConfiguration, NoSuchKey
from store.people.limits import told
from store.records import Key
from understudy.commands.as_json import JSON, print_json
from understudy.commands.auditing import note
from understudy.commands.data_folder import store_in
from understudy.commands.giving_up import give_up
from understudy.commands.terms_options import fields, not_past, said, seconds, terms_options

_DATA = click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    help="The gateway's data folder (memory.data_dir).",
)
_FROM_STDIN = click.option(
    "--secret-stdin",
    is_flag=True,
    help="Read the secret from standard input instead of drawing one: clients keep the key that they have.",
)


@click.group()
def keys() -> None:
    """Create, change and revoke API keys. Once there is one, every request needs a valid key."""


@keys.command()
@_DATA
@click.option(
    "--tenant", default="default", show_default=True, help="Whose key it is; keys of one tenant share memory."
)
@click.option("--name", default="unnamed", show_default=True, help="Key name.")
@_FROM_STDIN
@terms_options
@JSON
def create(data: Path, tenant: str, name: str, secret_stdin: bool, as_json: bool, **given: Any) -> None:
    """Create a key and print it, this once."""
    not_past(given["expires"])
    with _changing(data, create=True) as store:
        first = not store.keys.any_configured()
        terms = terms_of(fields(given))
        key, secret = store.keys.create(tenant, name, secret_text=_secret(secret_stdin), terms=terms)
        note(store, "keys/create", key.id, changes(None, key))
        _shown_once(key, secret, secret_stdin, as_json)
        if first:
            for line in left_behind(store, tenant):
                click.echo(line, err=True)


@keys.command()
@_DATA
@click.argument("key_id")
@click.option("--name", help="Another key name.")
@terms_options
@JSON
def edit(data: Path, key_id: str, name: str | None, as_json: bool, **given: Any) -> None:
    """Change what a key may use; what is not named stays, and `none` takes a limit back."""
    patch = fields(given) | ({"name": name} if name is not None else {})
    with _changing(data) as store:
        before, after = store.keys.edit(key_id, lambda key: patched(key, patch))
        detail = changes(before, after)
        if detail:
            note(store, "keys/edit", key_id, detail)
    if as_json:
        print_json(described(after))
    else:
        click.echo(f"{key_id} is changed: {', '.join(detail)}" if detail else f"{key_id} was so already")


@keys.command()
@_DATA
@click.argument("key_id")
@click.option(
    "--grace",
    default="0",
    show_default=True,
    metavar="TIME",
    help="How long the old secret is still taken: 24h.",
)
@_FROM_STDIN
@JSON
def rotate(data: Path, key_id: str, grace: str, secret_stdin: bool, as_json: bool) -> None:
    """Give a key another secret and print it, this once. Without --grace the old one, and any before it, end at once."""
    grace_s = seconds(grace, "--grace")
    with _changing(data) as store:
        key, secret = store.keys.rotate(key_id, grace_s, secret_text=_secret(secret_stdin))
        note(store, "keys/rotate", key_id, {"grace_s": grace_s, "prefix": key.prefix})
        _shown_once(key, secret, secret_stdin, as_json)


@keys.command("list")
@_DATA
@JSON
def list_(data: Path, as_json: bool) -> None:
    """List keys with their tenants, without their secrets."""
    with _changing(data) as store:
        found = store.keys.list()
    if as_json:
        print_json([described(key) for key in found])
        return
    for key in found:
        since = (told(key.created_at_s) or "")[:10]
        also = [f"until {(told(key.expires_at_s) or '')[:10]}"] if key.expires_at_s is not None else []
        also += ["from the configuration"] if key.source == "config" else []
        ends = f"  ({', '.join(also)})" if also else ""
        state = state_of(key, time.time())
        line = f"{key.id}  {key.prefix}...  {state:8} since {since}  tenant {key.tenant_name}  {key.name}"
        click.echo(line.rstrip() + ends)


@keys.command()
@_DATA
@click.argument("key_id")
@JSON
def show(data: Path, key_id: str, as_json: bool) -> None:
    """Show what a key may use."""
    with _changing(data) as store:
        key = store.keys.get(key_id)
    if as_json:
        print_json(described(key))
        return
    click.echo("\n".join([*said(described(key)), f"state: {state_of(key, time.time())}"]))


@keys.command()
@_DATA
@click.argument("key_id")
def revoke(data: Path, key_id: str) -> None:
    """Revoke a key. Running gateways refuse it within about a second."""
    with _changing(data) as store:
        store.keys.revoke(key_id).result(timeout=30)
        note(store, "keys/revoke", key_id, {})
        click.echo(f"revoked {key_id}")


@contextmanager
def _changing(data: Path, *, create: bool = False) -> Iterator[Store]:
    with store_in(data, create=create) as store:
        try:
            yield store
        except NoSuchKey as error:
            give_up(f"{error}; `understudy keys list` shows them")
        except (KeptInConfiguration, ValueError) as error:
            give_up(str(error))


def _secret(from_stdin: bool) -> str | None:
    return sys.stdin.readline().rstrip("\r\n") if from_stdin else None


def _shown_once(key: Key, secret: str, given: bool, as_json: bool) -> None:
    if as_json:
        print_json(described(key) | ({} if given else {"secret": secret}))
        return
    if not given:
        click.echo(secret)
    click.echo(
        f"Key {key.id} of tenant '{key.tenant_name}'. "
        + ("Only" if given else "It is not shown again: only")
        + " a keyed hash of it is stored.",
        err=True,
    )
