"""Tenants and their keys: all in one table, a page each; limits, keys and their secrets, deleting a tenant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.operations.keys import create_key, replace_key, revoke_key, rotate_key
from admin.operations.tenants import put_tenant
from admin.page import Action, ActionFailed, Asked, Page
from admin.roles import Role
from admin.sources import Sources
from admin.summaries.keys import key
from admin.summaries.tenant import delete_tenant, deletion, known, tenant
from admin.summaries.tenants import tenants
from admin.terms_form import terms_sent
from store.people.described import TenantFields, described
from store.people.limits import names_of

_HOUR_S = 3600.0
_MOST_GRACE_H = 366 * 24
_MOST_DAYS = 36_525
_DAYS_KEPT = ("texts_days", "rows_days", "examples_days")


def _key_sent(sources: Sources, asked: Asked) -> Mapping[str, Any]:
    name = asked.text("name", "unnamed", longest=200)
    return {**terms_sent(asked), "name": name, **asked.path}


def _new_key(sources: Sources, asked: Asked) -> Mapping[str, Any]:
    return {**_key_sent(sources, asked), "tenant": asked.text("tenant", longest=200)}


def _rotation(_: Sources, asked: Asked) -> Mapping[str, Any]:
    grace_h = asked.number("grace_h", 0.0, least=0, most=_MOST_GRACE_H) or 0.0
    return {"id": asked.path["id"], "grace_s": grace_h * _HOUR_S}


def _revoked(_: Sources, asked: Asked) -> Mapping[str, Any]:
    return {"id": asked.text("key", longest=100)}


def _tenant_sent(sources: Sources, asked: Asked) -> Mapping[str, Any]:
    """Every field of the form; whether a tenant is closed is no field of it."""
    days = {name: asked.number(name, None, least=0.001, most=_MOST_DAYS) for name in _DAYS_KEPT}
    _, record, name = known(sources, asked.path["tenant"])
    if not name:
        raise ActionFailed("Limits are laid down for tenants that keys name; this one has no name.")
    closed = record is not None and record.closed_at_s is not None
    sent = {**terms_sent(asked), "region": asked.text("region", longest=64), "retention": days}
    return {"name": name, **sent, "closed": closed}


def _opened_or_closed(sources: Sources, asked: Asked) -> Mapping[str, Any]:
    """What is laid down, closed or open. Form field: `closed`, yes or no."""
    _, record, name = known(sources, asked.path["tenant"])
    if not name:
        raise ActionFailed("This tenant has no keys of this gateway's that could be refused.")
    laid_down = described(record) if record is not None else {}
    fields = {field: laid_down[field] for field in names_of(TenantFields) if field in laid_down}
    return {"name": name, **fields, "closed": asked.choice("closed", ("yes", "no"), "") == "yes"}


TENANTS = Page(
    "/tenants",
    "Tenants and keys",
    "tenants.html",
    tenants,
    csv="tenants",
    actions=(
        create_key.form("/tenants/create-key", template="new_key.html", fields=_new_key),
        revoke_key.form("/tenants/revoke-key", fields=_revoked),
    ),
)
TENANT = Page(
    "/tenants/{tenant}",
    "Tenant",
    "tenant.html",
    tenant,
    section="/tenants",
    in_menu=False,
    csv="keys",
    actions=(
        put_tenant.form("/tenants/{tenant}/edit", to="/tenants/{tenant}", fields=_tenant_sent),
        put_tenant.form("/tenants/{tenant}/close", to="/tenants/{tenant}", fields=_opened_or_closed),
    ),
)
TENANT_DELETION = Page(
    "/tenants/{tenant}/delete",
    "Delete a tenant",
    "tenant_delete.html",
    deletion,
    section="/tenants",
    in_menu=False,
    role=Role.OPERATOR,
    actions=(Action("/tenants/{tenant}/delete", delete_tenant, template="statement.html"),),
)
KEY = Page(
    "/keys/{id}",
    "Key",
    "key.html",
    key,
    section="/tenants",
    in_menu=False,
    csv="models",
    actions=(
        replace_key.form("/keys/{id}/edit", to="/keys/{id}", fields=_key_sent),
        rotate_key.form("/keys/{id}/rotate", template="new_key.html", fields=_rotation),
    ),
)
