"""`understudy tenants create|edit|show|list`: what holds for all keys of a tenant together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from store import Store
from store.people.described import TenantFields, changes, described, patched
from store.people.keys import KeptInConfiguration
from store.people.tenants import NoSuchTenantRecord, TenantExists
from store.records import Tenant
from store.validating import read, without_nulls
from understudy.commands.as_json import JSON, print_json
from understudy.commands.auditing import note
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.giving_up import give_up
from understudy.commands.terms_options import fields, not_past, said, terms_options

F = TypeVar("F", bound=Callable[..., Any])
_KEPT = ("texts", "rows", "examples")


def _options(command: F) -> F:
    for kept in reversed(_KEPT):
        text = f"For how many days its {kept} are kept; none: as the configuration has it."
        command = click.option(f"--keep-{kept}-days", metavar="N", help=text)(command)
    command = click.option("--region", help="Only engines of this region answer it.")(command)
    return terms_options(command)


@click.group()
def tenants() -> None:
    """Lay down what tenants may use, for all keys of each together. A running gateway follows within a second."""


@tenants.command()
@data_option()
@click.argument("name")
@_options
@JSON
def create(data: Path, name: str, as_json: bool, **given: Any) -> None:
    """Lay something down for a tenant. Keys name it: `keys create --tenant NAME`."""
    not_past(given["expires"])
    with _changing(data, create=True) as store:
        fields_given = read(TenantFields, without_nulls(_fields(given)))
        made = store.tenant_records.create(
            name, fields_given, region=fields_given.region, retention=fields_given.retention
        )
        note(store, "tenants/create", made.id, changes(None, made))
    _tell(made, f"tenant {name} is made; `understudy keys create --tenant` makes its keys", as_json)


@tenants.command()
@data_option()
@click.argument("name")
@_options
@click.option(
    "--closed/--open",
    default=None,
    help="Refuse its keys from now on; take them again. They are not revoked.",
)
@JSON
def edit(data: Path, name: str, closed: bool | None, as_json: bool, **given: Any) -> None:
    """Change what a tenant may use; what is not named stays, and `none` takes a limit back."""
    patch = _fields(given) | ({"closed": closed} if closed is not None else {})
    with _changing(data) as store:
        before, after = store.tenant_records.edit(name, lambda tenant: patched(tenant, patch))
        detail = changes(before, after)
        if detail:
            note(store, "tenants/edit", after.id, detail)
    _tell(after, f"{name} is changed: {', '.join(detail)}" if detail else f"{name} was so already", as_json)


@tenants.command("list")
@data_option()
@JSON
def list_(data: Path, as_json: bool) -> None:
    """List tenants by name: those that something was laid down for, and those that only keys name."""
    with _changing(data) as store:
        records = {tenant.name: tenant for tenant in store.tenant_records.list()}
        in_force = Counter(key.tenant_name for key in store.keys.list() if key.revoked_at_s is None)
        ids = {name: store.keys.tenant_named(name) for name in sorted({*records, *in_force})}
    rows = [
        (described(records[name]) if name in records else {"id": id, "name": name}) | {"keys": in_force[name]}
        for name, id in ids.items()
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        state = "closed" if row.get("closed") else "open"
        limits = "limits" if row.get("limits") or row.get("each_user") else "no limits"
        keys = f"{row['keys']} key{'s' if row['keys'] != 1 else ''}"
        click.echo(f"{row['id']}  {state:6}  {keys:7}  {limits:9}  {row['name']}")


@tenants.command()
@data_option()
@click.argument("name")
@JSON
def show(data: Path, name: str, as_json: bool) -> None:
    """Show what is laid down for a tenant."""
    with _changing(data) as store:
        found = store.tenant_records.named(name)
    _tell(found, "\n".join(said(described(found))), as_json)


@contextmanager
def _changing(data: Path, *, create: bool = False) -> Iterator[Store]:
    with store_in(data, create=create) as store:
        try:
            yield store
        except NoSuchTenantRecord as error:
            give_up(f"{error}; `understudy tenants list` shows them, `understudy tenants create` makes one")
        except (KeptInConfiguration, TenantExists, ValueError) as error:
            give_up(str(error))


def _fields(given: dict[str, Any]) -> dict[str, Any]:
    found = fields(given)
    if given["region"] is not None:
        found["region"] = "" if given["region"] == "none" else given["region"]
    kept = {f"{name}_days": given[f"keep_{name}_days"] for name in _KEPT}
    if days := {name: _days(value, name) for name, value in kept.items() if value is not None}:
        found["retention"] = days
    return found


def _days(text: str, name: str) -> float | None:
    try:
        return None if text == "none" else float(text)
    except ValueError:
        hint = f"--keep-{name.replace('_', '-')}"
        raise click.BadParameter(f"{text[:40]!r}: a number of days, or none", param_hint=hint) from None


def _tell(tenant: Tenant, sentence: str, as_json: bool) -> None:
    if as_json:
        print_json(described(tenant))
    else:
        click.echo(sentence)
