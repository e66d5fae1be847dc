"""`understudy forget`: deletes what is remembered of a tenant, a key or a user, from every file of the data folder.

Or exact answers only, of one request, of a tenant or all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from learning.bank.forgetting import Forgetter
from store import Store
from store.answers.exact_listing import Purge
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.tenant_option import NoSuchTenant, tenant_named, tenant_option


@click.command()
@data_option()
@tenant_option("Everything of a tenant; with --user, the tenant in which the user is looked for.")
@click.option("--key", "key_id", metavar="KEY_ID", help="What came with this key, in force or revoked.")
@click.option("--user", help="What came with requests that named this `user` or `safety_identifier`.")
@click.option(
    "--exact",
    is_flag=True,
    help="Only answers kept for exact repeats, with --request, --tenant or --all. No running gateway gives them any more.",
)
@click.option(
    "--request",
    "request_id",
    metavar="ID",
    help="With --exact: the answer that this request (its x-understudy-decision-id) would be given again.",
)
@click.option("--all", "everyone", is_flag=True, help="With --exact: those of every tenant.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(
    data: Path,
    tenant: str | None,
    key_id: str | None,
    user: str | None,
    exact: bool,
    request_id: str | None,
    everyone: bool,
    yes: bool,
) -> None:
    """Delete, and overwrite what was deleted: rows, exact answers, request log, index and snapshot.

    For a key or a user: their examples, the answers they were given, and other answers made with those examples.
    """
    if exact:
        if key_id or user or sum((bool(request_id), bool(tenant), everyone)) != 1:
            raise click.UsageError("--exact needs one of --request ID, --tenant NAME and --all")
        _forget_exact(data, request_id, tenant, yes)
        return
    if request_id or everyone:
        raise click.UsageError("--request and --all go with --exact")
    if (key_id and (user or tenant)) or not (tenant or key_id or user):
        raise click.UsageError(
            "say whom to forget: --tenant NAME, --key KEY_ID, or --user USER [--tenant NAME]"
        )
    with store_in(data) as store:
        forgetter = Forgetter(store)
        whom = f"user {user!r}" if user else f"key {key_id}" if key_id else f"tenant {tenant!r}"
        if not yes:
            click.confirm(f"Delete what is remembered of {whom} in {data}?", abort=True, err=True)
        if key_id:
            done = [forgetter.contributor(_tenant_of_key(store, key_id), key_id=key_id, purge=True)]
        elif user:
            where = [tenant_named(store.keys, tenant)] if tenant else store.tenants()
            done = [forgetter.contributor(one, user=user, purge=True) for one in where]
        else:
            assert tenant is not None
            done = [forgetter.tenant(tenant_named(store.keys, tenant))]
        erased = forgetter.erase()
    examples, answers, requests = (
        (sum(counts) for counts in zip(*((d.examples, d.answers, d.requests) for d in done), strict=True))
        if done
        else (0, 0, 0)
    )
    click.echo(f"{examples} examples, {answers} exact answers, {requests} rows of the request log deleted")
    if not erased:
        click.echo(
            "understudy: deleted, but another process kept reading the old state: run this again", err=True
        )
        sys.exit(1)


def _forget_exact(data: Path, request_id: str | None, tenant: str | None, yes: bool) -> None:
    whose = f"request {request_id}" if request_id else f"tenant {tenant!r}" if tenant else "every tenant"
    if not yes:
        click.confirm(f"Delete the exact answers of {whose} in {data}?", abort=True, err=True)
    with store_in(data) as store:
        if request_id:
            deleted = store.answers.listing.purge(Purge(request_id=request_id)).result(60.0).exact
        else:
            of = tenant_named(store.keys, tenant) if tenant else None
            deleted = store.answers.exact.forget(tenant=of).result(60.0)
        store.scrub()
    click.echo(f"{deleted} exact answers deleted")


def _tenant_of_key(store: Store, key_id: str) -> str:
    for key in store.keys.list():
        if key.id == key_id:
            return key.tenant
    raise NoSuchTenant(f"there is no key {key_id!r}; `understudy keys list` shows them")
