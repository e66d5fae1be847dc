"""Forgetting an end user or a key's requests, and the statement of it that can be printed."""

from __future__ import annotations

from admin.page import Action, Page
from admin.roles import Role
from admin.summaries.forgetting import forget, forgetting, statement

FORGET = Page(
    "/forget",
    "Forget",
    "forget.html",
    forgetting,
    section="/tenants",
    in_menu=False,
    role=Role.OPERATOR,
    actions=(Action("/forget", forget, template="statement.html", name="forget"),),
)
STATEMENT = Page(
    "/audit/{id}/statement",
    "Statement of deletion",
    "statement.html",
    statement,
    section="/audit",
    in_menu=False,
    role=Role.OPERATOR,
)
