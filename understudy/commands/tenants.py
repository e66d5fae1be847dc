"""`understudy tenants create|edit|show|list`: what holds for all keys of a tenant together."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from admin.operations.tenants import create_tenant, edit_tenant, show_tenant
from admin.page import Asked, Summary
from admin.sources import Sources
from store.people.described import described
from understudy.commands.made import Given, command, reading
from understudy.commands.terms_options import fields, terms_options

_KEPT = ("texts", "rows", "examples")
_CLOSED = click.Option(
    ["--closed/--open"],
    default=None,
    help="Refuse its keys from now on; take them again. They are not revoked.",
)


@click.group()
def tenants() -> None:
    """Lay down what tenants may use, for all keys of each together. A running gateway follows within a second."""


def _options() -> list[click.Option]:
    kept = [
        click.Option(
            [f"--keep-{name}-days"],
            metavar="N",
            help=f"For how many days its {name} are kept; none: as the configuration has it.",
        )
        for name in _KEPT
    ]
    return [
        *terms_options(),
        click.Option(["--region"], help="Only engines of this region answer it."),
        *kept,
    ]


def _tenant(given: Given) -> dict[str, Any]:
    found = {"name": given["name"], **fields(given)}
    if given["region"] is not None:
        found["region"] = "" if given["region"] == "none" else given["region"]
    kept = {f"{name}_days": given[f"keep_{name}_days"] for name in _KEPT}
    if days := {name: _days(value, name) for name, value in kept.items() if value is not None}:
        found["retention"] = days
    if given.get("closed") is not None:
        found["closed"] = given["closed"]
    return found


def _days(text: str, name: str) -> float | None:
    try:
        return None if text == "none" else float(text)
    except ValueError:
        hint = f"--keep-{name.replace('_', '-')}"
        raise click.BadParameter(f"{text[:40]!r}: a number of days, or none", param_hint=hint) from None


def listed(sources: Sources, asked: Asked) -> Summary:
    """Tenants by name: those that something was laid down for, and those that only keys name."""
    store = sources.store
    records = {tenant.name: tenant for tenant in store.tenant_records.list()}
    in_force = Counter(key.tenant_name for key in store.keys.list() if key.revoked_at_s is None)
    found = []
    for name in sorted({*records, *in_force}):
        laid_down = described(records[name]) if name in records else {"closed": False}
        row = {"id": store.keys.tenant_named(name), "name": name, "keys": in_force[name], **laid_down}
        found.append(row | {"limited": bool(row.get("limits") or row.get("each_user"))})
    return {"tenants": found}


tenants.add_command(command(create_tenant, options=_options(), given=_tenant, creates=True))
tenants.add_command(command(edit_tenant, options=[*_options(), _CLOSED], given=_tenant))
tenants.add_command(command(show_tenant))
tenants.add_command(
    reading(
        "list",
        "List tenants by name: those that something was laid down for, and those that only keys name.",
        listed,
        rows="tenants",
        tables={"tenants": ("id", "closed", "keys", "limited", "name")},
        nothing="there is no tenant yet",
    )
)
