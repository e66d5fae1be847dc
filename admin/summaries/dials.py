"""The routing settings of one served model: what is configured, what is in force for whom, and who changed them when."""

from __future__ import annotations

from typing import Any

from admin.formats import tenant_label
from admin.sources import Sources
from admin.words import ROUTING_SETTINGS
from router.dials import Dials
from store.learned.dials import TurnedDials


def dials(sources: Sources, model: str, tenant: str = "") -> dict[str, Any]:
    """The configured settings, those in force for a tenant (empty: for everybody without own ones), and the history."""
    log = sources.store.dials
    turned, own = log.in_force(model), log.of_tenants(model)
    of_tenant = own.get(tenant)
    configured = sources.gateway.actions.dials.get(model, Dials())
    names = sources.tenant_names()
    rows = []
    for name, (label, says) in ROUTING_SETTINGS.items():
        value = getattr(configured, name)
        if value is None:
            continue
        row = {"name": name, "label": label, "says": says, "configured": value}
        for change in (turned, of_tenant):
            if change is not None and getattr(change, name) is not None:
                value = getattr(change, name)
        rows.append(row | {"in_force": value})
    now = of_tenant if tenant else turned
    return {
        "rows": rows,
        "tenant": tenant,
        "changed": now is not None,
        "version": now.id if now is not None else 0,
        "by": now.user if now else None,
        "at_s": now.at_s if now else None,
        "own": [
            {"tenant": each, "name": tenant_label(names, each), **_change(row, names)}
            for each, row in sorted(own.items())
        ],
        "history": [_change(row, names) for row in log.history(model)],
    }


def in_force(sources: Sources, model: str, tenant: str = "") -> dict[str, Any]:
    """The settings in force by name, those alone that the model's policy has."""
    return {row["name"]: row["in_force"] for row in dials(sources, model, tenant)["rows"]}


def _change(row: TurnedDials, names: dict[str, str]) -> dict[str, Any]:
    return {
        "id": row.id,
        "for": tenant_label(names, row.tenant) if row.tenant else "",
        "at_s": row.at_s,
        "by": row.user,
        "values": {name: value for name in ROUTING_SETTINGS if (value := getattr(row, name)) is not None},
        "undone_at_s": row.taken_back_at_s,
        "undone_by": row.taken_back_by,
    }
