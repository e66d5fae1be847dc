"""Accounts page: who may sign in to these pages; roles, passwords and sessions."""

from __future__ import annotations

from admin.page import Action, Page
from admin.roles import Role
from admin.summaries.accounts import (
    accounts,
    add_account,
    end_sessions,
    remove_account,
    set_password,
    set_role,
)

ACCOUNTS = Page(
    "/accounts",
    "Accounts",
    "accounts.html",
    accounts,
    role=Role.OPERATOR,
    csv="accounts",
    actions=(
        Action("/accounts/add", add_account, template="new_password.html"),
        Action("/accounts/password", set_password, template="new_password.html"),
        Action("/accounts/role", set_role),
        Action("/accounts/remove", remove_account),
        Action("/accounts/end-sessions", end_sessions),
    ),
)
