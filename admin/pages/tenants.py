"""Tenants and their keys: all in one table, a page each; limits, keys and their secrets, deleting a tenant."""

from __future__ import annotations

from admin.page import Action, Page
from admin.roles import Role
from admin.summaries.keys import create_key, edit_key, key, revoke_key, rotate_key
from admin.summaries.tenant import delete_tenant, deletion, edit_tenant, open_or_close, tenant
from admin.summaries.tenants import tenants

TENANTS = Page(
    "/tenants",
    "Tenants and keys",
    "tenants.html",
    tenants,
    csv="tenants",
    actions=(
        Action("/tenants/create-key", create_key, template="new_key.html"),
        Action("/tenants/revoke-key", revoke_key),
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
        Action("/tenants/{tenant}/edit", edit_tenant),
        Action("/tenants/{tenant}/close", open_or_close),
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
    actions=(Action("/tenants/{tenant}/delete", delete_tenant),),
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
        Action("/keys/{id}/edit", edit_key),
        Action("/keys/{id}/rotate", rotate_key, template="new_key.html"),
    ),
)
