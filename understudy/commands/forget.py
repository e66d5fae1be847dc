"""`understudy forget`: deletes what is remembered of a tenant, a key or a user, from every file of the data folder.

Or exact answers only, of one request, of a tenant or all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from learning.bank.forgetting import Forgetter, Forgotten
from store import Store
from store.answers.exact_listing import Purge
from store.held import Held
from store.people.keys import KeptInConfiguration
from understudy.commands.auditing import note
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.giving_up import give_up
from understudy.commands.tenant_option import NoSuchTenant, tenant_named, tenant_option

_MOST_TENANTS = 100_000
_WORDS = {
    "examples": "examples",
    "answers": "stored answers",
    "requests": "rows of the request log",
    "texts": "texts of requests",
    "choices": "logged decisions",
    "outcomes": "outcomes",
    "feedback": "feedback",
    "versions": "versions of what the router learnt",
    "labels": "labelled answers",
    "runs": "runs of applications",
    "workflows": "versions of workflows",
    "documents": "texts of collections",
}


@click.command()
@data_option()
@tenant_option("Everything of a tenant; with --user, the tenant in which the user is looked for.")
@click.option("--key", "key_id", metavar="KEY_ID", help="What came with this key, in force or revoked.")
@click.option("--user", help="What came with requests that named this `user` or `safety_identifier`.")
@click.option(
    "--keep-keys",
    is_flag=True,
    help="With --tenant: its keys and limits stay, so that it starts anew. Else its keys are revoked.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="Only answers in the cache, with --request, --tenant or --all. No running gateway gives them any more.",
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
    keep_keys: bool,
    exact: bool,
    request_id: str | None,
    everyone: bool,
    yes: bool,
) -> None:
    """Delete, and overwrite what was deleted: rows, exact answers, request log, index and snapshot.

    For a key or a user: their examples, the answers they were given, and other answers made with those examples.
    A tenant's totals stay, as those of deleted tenants together.
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
    if keep_keys and (user or not tenant):
        raise click.UsageError("--keep-keys goes with --tenant")
    with store_in(data) as store:
        if user or key_id:
            done = _forget_contributor(store, data, tenant, key_id, user, yes)
        else:
            assert tenant is not None
            done = [_forget_tenant(store, tenant, keep_keys, yes)]
        erased = Forgetter(store).erase()
    _tell(done)
    if not erased:
        click.echo(
            "understudy: deleted, but another process kept reading the old state: run this again", err=True
        )
        sys.exit(1)
    whom = f"user {user!r}" if user else f"key {key_id}" if key_id else f"tenant {tenant!r}"
    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    click.echo(
        f"At {at} nothing of {whom} was left in {data}: the same command, run again, deletes 0 until something new comes.\n"
        "Not reached: backups, exports, logs that were collected elsewhere, and what engines' providers keep."
    )


def _forget_tenant(store: Store, tenant: str, keep_keys: bool, yes: bool) -> Forgotten:
    id, forgetter = tenant_named(store.keys, tenant), Forgetter(store)
    keys = [key for key in store.keys.list() if key.tenant == id and key.revoked_at_s is None]
    if not yes:
        click.echo(f"Of tenant {tenant!r} there would go: {_counted(store.held_of(id))}.", err=True)
        click.echo(
            f"Its {len(keys)} keys stay in force."
            if keep_keys
            else f"Its {len(keys)} keys in force are revoked, its limits dropped.",
            err=True,
        )
        click.echo("Its totals stay, without its name, as those of deleted tenants.", err=True)
        typed = click.prompt("Type its name to delete all that", err=True, default="", show_default=False)
        if typed != tenant:
            raise click.Abort
    try:
        done = forgetter.tenant(id) if keep_keys else forgetter.delete_tenant(id)
    except KeptInConfiguration as error:
        give_up(f"{error}; --keep-keys deletes what is remembered and leaves its keys in force")
    note(store, "forget" if keep_keys else "tenants/delete", id, asdict(done))
    return done


def _forget_contributor(
    store: Store, data: Path, tenant: str | None, key_id: str | None, user: str | None, yes: bool
) -> list[Forgotten]:
    forgetter = Forgetter(store)
    if not yes:
        whom = f"user {user!r}" if user else f"key {key_id}"
        click.confirm(f"Delete what is remembered of {whom} in {data}?", abort=True, err=True)
    if key_id:
        done = [forgetter.contributor(_tenant_of_key(store, key_id), key_id=key_id, purge=True)]
    else:
        assert user is not None
        every = {*store.tenants(), *store.decisions.search.tenants(_MOST_TENANTS)}
        where = [tenant_named(store.keys, tenant)] if tenant else sorted(every)
        done = [forgetter.contributor(one, user=user, purge=True) for one in where]
    # A user's name is what is to be forgotten.
    note(store, "forget", key_id or "a user", asdict(_sum(done)))
    return done


def _tell(done: Sequence[Forgotten]) -> None:
    total = _sum(done)
    click.echo(
        f"{total.examples} examples, {total.answers} exact answers, {total.requests} rows of the request log deleted"
    )
    if total.keys:
        click.echo(f"{total.keys} keys revoked")
    if total.versions:
        click.echo(
            f"{total.versions} versions of what the router learnt deleted: it is learnt anew from what is left, and until"
            " then what is built in decides"
        )


def _sum(done: Sequence[Forgotten]) -> Forgotten:
    counts = [asdict(one) for one in done]
    return Forgotten(**{name: sum(one[name] for one in counts) for name in asdict(Forgotten(0, 0, 0))})


def _counted(held: Held) -> str:
    there = [f"{count} {_WORDS[name]}" for name, count in asdict(held).items() if count]
    return ", ".join(there) or "nothing"


def _forget_exact(data: Path, request_id: str | None, tenant: str | None, yes: bool) -> None:
    whose = f"request {request_id}" if request_id else f"tenant {tenant!r}" if tenant else "every tenant"
    if not yes:
        click.confirm(f"Delete the exact answers of {whose} in {data}?", abort=True, err=True)
    with store_in(data) as store:
        of = tenant_named(store.keys, tenant) if tenant else None
        if request_id:
            deleted = store.answers.listing.purge(Purge(request_id=request_id)).result(60.0).exact
        else:
            deleted = store.answers.exact.forget(tenant=of).result(60.0)
        note(store, "forget/exact", request_id or of or "every tenant", {"answers": deleted})
        store.scrub()
    click.echo(f"{deleted} exact answers deleted")


def _tenant_of_key(store: Store, key_id: str) -> str:
    for key in store.keys.list():
        if key.id == key_id:
            return key.tenant
    raise NoSuchTenant(f"there is no key {key_id!r}; `understudy keys list` shows them")
