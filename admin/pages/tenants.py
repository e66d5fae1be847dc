"""Tenants and keys: make a key, revoke one, see what was used."""

from __future__ import annotations

from admin.page import Action, Page
from admin.summaries.tenants import create_key, revoke_key, tenants

TENANTS = Page(
    "/tenants",
    "Tenants and keys",
    "tenants.html",
    tenants,
    actions=(
        Action("/tenants/create-key", create_key, template="new_key.html"),
        Action("/tenants/revoke-key", revoke_key),
    ),
)
