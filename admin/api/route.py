"""Defines an operation of the admin API: its route, what it needs, and what it does. The OpenAPI document is made from it.

To add one: a function from Call to Answer, and a Route in the list of its file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from admin.roles import Role
from admin.sources import Sources

MOST_PER_PAGE = 1000


class Problem(Exception):
    """What was asked cannot be done: told as problem details (RFC 9457)."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


@dataclass(frozen=True, slots=True)
class Call:
    """One call, by a program whose token was checked."""

    sources: Sources
    now_s: float
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)

    def page(self) -> tuple[str, int]:
        """(`after`, `limit`). Raises Problem."""
        text = self.query.get("limit", "100")
        if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MOST_PER_PAGE:
            raise Problem(400, "invalid", f"limit is {text[:40]!r}; 1 to {MOST_PER_PAGE} is right")
        return self.query.get("after", ""), int(text)


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a call."""

    body: Any
    status: int = 200
    target: str = ""
    """What was changed, for the audit log."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Old and new values, for the audit log; without secrets."""
    location: str = ""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True)
class Route:
    """One operation."""

    method: str
    path: str
    """In the syntax of aiohttp's router and of OpenAPI: /api/keys/{id}."""
    name: str
    """The operation's id, and the action in the audit log."""
    summary: str
    act: Callable[[Call], Answer]
    """Blocks: runs on a thread. Raises Problem, and ValueError for what cannot be right."""
    role: Role | None = Role.VIEWER
    """None: no token is needed."""
    takes: str = ""
    """Name of the schema of the body; empty for none."""
    gives: str = ""
    """Name of the schema of the answer."""
    status: int = 200
    parameters: tuple[Parameter, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether it changes anything: then it is in the audit log."""
        return self.method != "GET"


PAGING = (
    Parameter("limit", f"How many at most: 1 to {MOST_PER_PAGE}.", {"type": "integer", "default": 100}),
    Parameter("after", "The `next` of the page before."),
)
