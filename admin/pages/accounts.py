"""Accounts page: who may sign in to these pages; roles, passwords and sessions. And everybody's own."""

from __future__ import annotations

from admin.page import Action, Page
from admin.roles import Role
from admin.summaries.accounts import (
    accounts,
    add_account,
    end_own_sessions,
    end_sessions,
    own_account,
    remove_account,
    set_own_password,
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

OWN_ACCOUNT = Page(
    "/account",
    "Your account",
    "account.html",
    own_account,
    in_menu=False,
    actions=(
        Action("/account/password", set_own_password, role=Role.VIEWER),
        Action("/account/end-sessions", end_own_sessions, role=Role.VIEWER),
    ),
)
