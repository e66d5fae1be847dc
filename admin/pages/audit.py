"""Audit page: who did what on these pages, by a program or by a command, when, and from where."""

from __future__ import annotations

from admin.page import Page
from admin.roles import Role
from admin.summaries.audit import audit

AUDIT = Page("/audit", "Audit", "audit.html", audit, role=Role.OPERATOR, csv="rows")
