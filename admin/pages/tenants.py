"""Tenants page: tenants and their keys; make and revoke keys; see their use."""

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
