"""What a page is: a path, what it is made from, and how it is shown. Its JSON twin is made from the very same summary.

To add a page: a function in admin/summaries/ from (Sources, Asked) to a dictionary, a template, and a Page in admin/pages/.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from admin.roles import Role
from admin.sources import Sources

Summary = dict[str, Any]
"""JSON, but for admin.roles.Content around whatever somebody wrote."""
LONGEST_PARAMETER = 2000


class BadParameter(Exception):
    """A parameter of the query or form that cannot be used; the text names it, its value and what would be right."""


class NotThere(Exception):
    """What the path names does not exist, or not any more; the text says so."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who asks."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for: by the path, the query (or form), by whom and when."""

    viewer: Viewer
    now_s: float
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    by_itself: bool = False
    """An open page refreshes itself: nobody may be looking, so nothing expensive is begun for it."""

    def text(self, name: str, default: str = "", *, longest: int = LONGEST_PARAMETER) -> str:
        """A parameter without spaces around it. Raises BadParameter when it is too long."""
        value = self.query.get(name, "").strip() or default
        if len(value) > longest:
            raise BadParameter(f"{name} has {len(value)} characters; {longest} are the most")
        return value

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        """One of several words. Raises BadParameter for any other."""
        value = self.text(name, default)
        if value not in allowed:
            raise BadParameter(f"{name} is {value[:60]!r}; one of {', '.join(allowed)} is right")
        return value

    def number(self, name: str, default: float | None, *, least: float, most: float) -> float | None:
        """A finite number within bounds; `default` where there is none. Raises BadParameter."""
        value = self.text(name)
        if not value:
            return default
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            raise BadParameter(f"{name} is {value[:60]!r}; a number from {least:g} to {most:g} is right")
        return number

    def whole(self, name: str, default: int, *, least: int = 0, most: int = 2**53) -> int:
        """A whole number within bounds. Raises BadParameter."""
        number = self.number(name, default, least=least, most=most)
        if number is None or number != int(number):
            raise BadParameter(f"{name} is {self.text(name)[:60]!r}; a whole number is right")
        return int(number)


@dataclass(frozen=True, slots=True)
class Done:
    """What came of an action."""

    message: str
    """One sentence for the person."""
    to: str = ""
    """Where the browser goes next; empty goes back to the page that holds the form."""
    target: str = ""
    """What was acted on, for the audit log."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """For the audit log: no content, no secret."""
    shown: Summary | None = None
    """Shown at once in place of a redirect: what may be seen only this once, such as a new key."""


class ActionFailed(Exception):
    """It could not be done; the text is for the person."""


Act = Callable[[Sources, Asked], Done] | Callable[[Sources, Asked], Awaitable[Done]]


@dataclass(frozen=True, slots=True)
class Action:
    """A form's target. `run` blocks, on a thread; or is a coroutine function. `Asked.query` holds the form's fields."""

    path: str
    run: Act
    role: Role = Role.OPERATOR
    template: str = ""
    """For `Done.shown`."""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """One page and its JSON twin."""

    path: str
    """As aiohttp's router has it, such as /requests/{id}; the twin has .json behind it."""
    title: str
    template: str
    summary: Callable[[Sources, Asked], Summary]
    """Blocks, on a thread. Raises BadParameter or NotThere."""
    section: str = ""
    """The entry of the menu it belongs to; empty for its own path."""
    in_menu: bool = True
    role: Role = Role.VIEWER
    charts: bool = False
    """Whether the charting library is loaded."""
    actions: tuple[Action, ...] = ()
