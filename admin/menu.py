"""The menu: pages under their headings, in one order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from admin.page import Page
from admin.roles import Role

ORDER: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("/overview", "/trends", "/cost")),
    ("Traffic", ("/requests", "/sessions", "/runs", "/workflows")),
    ("Memory", ("/examples", "/cache", "/datasets")),
    ("Routing", ("/engines", "/router", "/playground", "/tasks")),
    ("Quality", ("/review", "/replay", "/learning")),
    ("Access", ("/tenants", "/accounts", "/audit")),
    ("Gateway", ("/settings",)),
)
"""Paths by heading; a page of the menu that is in none comes last."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the menu."""

    path: str
    title: str
    role: Role
    """The least role that may open it."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A group of entries."""

    name: str
    """Empty for those that stand first, without a heading."""
    entries: tuple[Entry, ...]

    def seen_by(self, role: Role) -> tuple[Entry, ...]:
        """The entries that somebody with this role may open: others are not offered."""
        return tuple(entry for entry in self.entries if role.covers(entry.role))


def menu_of(pages: Sequence[Page]) -> list[Heading]:
    """The groups in their order; those without a page are left out."""
    entries = {page.path: Entry(page.path, page.title, page.role) for page in pages if page.in_menu}
    found = [(name, [entries.pop(path) for path in paths if path in entries]) for name, paths in ORDER]
    found[-1][1].extend(entries.values())
    return [Heading(name, tuple(listed)) for name, listed in found if listed]
