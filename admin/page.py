"""Defines a page: a path, its summary and its template. The JSON twin is made from the same summary.

To add a page: a function in admin/summaries/ from (Sources, Asked) to a dictionary, a template, and a Page in admin/pages/.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any

from admin.roles import Role
from admin.sources import Sources

Summary = dict[str, Any]
"""JSON, except that texts written by somebody are wrapped in admin.roles.Content."""
LONGEST_PARAMETER = 2000


class _OfAField(Exception):
    """A sentence for the person who sent a query or form, and the field it is about."""

    def __init__(self, text: str, field: str = "") -> None:
        """`field`: the name of the form's field; empty where it is about none, or several."""
        super().__init__(text)
        self.field = field


class BadParameter(_OfAField):
    """A parameter of the query or form is invalid; the text names it, its value and what would be right."""


class ActionFailed(_OfAField):
    """The action could not be done; the text is for the person."""


class NotThere(Exception):
    """What the path names does not exist (any more); the text says so."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The signed-in person."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a page or an action: path, query (or form), person and time."""

    viewer: Viewer
    now_s: float
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    by_itself: bool = False
    """Whether an open page refreshes itself: then nothing expensive is started."""
    zone: tzinfo = UTC
    """The time zone that times are written in."""
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Every value of each parameter of the query or form, in order."""

    def text(self, name: str, default: str = "", *, longest: int = LONGEST_PARAMETER) -> str:
        """A parameter without surrounding spaces. Raises BadParameter when it is too long."""
        value = self.query.get(name, "").strip() or default
        if len(value) > longest:
            raise BadParameter(f"{name} has {len(value)} characters; {longest} are the most", name)
        return value

    def many(self, name: str, *, most: int = 1000) -> list[str]:
        """Every value of a parameter that may be there several times, such as ticked rows; each once.

        Raises BadParameter.
        """
        given = self.lists.get(name) or ((self.query[name],) if name in self.query else ())
        values = list(dict.fromkeys(value.strip() for value in given if value.strip()))
        if len(values) > most:
            raise BadParameter(f"{name} has {len(values)} values; {most} are the most", name)
        return values

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        """One of the allowed words. Raises BadParameter for any other."""
        value = self.text(name, default)
        if value not in allowed:
            raise BadParameter(f"{name} is {value[:60]!r}; one of {', '.join(allowed)} is right", name)
        return value

    def number(self, name: str, default: float | None, *, least: float, most: float) -> float | None:
        """A finite number within bounds; `default` where it is missing. Raises BadParameter."""
        value = self.text(name)
        if not value:
            return default
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            raise BadParameter(
                f"{name} is {value[:60]!r}; a number from {least:g} to {most:g} is right", name
            )
        return number

    def time(self, name: str) -> float | None:
        """A time as a `datetime-local` field sends it (2026-11-23T09:42), as Unix seconds; None where it is missing.

        It is read in the pages' time zone unless it names an offset. Raises BadParameter.
        """
        value = self.text(name, longest=40)
        if not value:
            return None
        try:
            moment = datetime.fromisoformat(value)
            # A time before the year 1 is in no calendar: some Pythons read it, some do not.
            return (moment if moment.tzinfo else moment.replace(tzinfo=self.zone)).astimezone(UTC).timestamp()
        except (ValueError, OverflowError):
            raise BadParameter(
                f"{name} is {value!r}; a time such as 2026-11-23T09:42 is right", name
            ) from None

    def whole(self, name: str, default: int, *, least: int = 0, most: int = 2**53) -> int:
        """A whole number within bounds. Raises BadParameter."""
        number = self.number(name, default, least=least, most=most)
        if number is None or number != int(number):
            raise BadParameter(f"{name} is {self.text(name)[:60]!r}; a whole number is right", name)
        return int(number)


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an action."""

    message: str
    """One sentence for the person."""
    to: str = ""
    """Where the browser goes next; empty: the page that holds the form."""
    target: str = ""
    """The object of the action, for the audit log."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Details for the audit log, without content or secrets."""
    shown: Summary | None = None
    """Shown on a page of its own, to this session only and once: what may be seen only once, such as a new key."""
    again: bool = False
    """Whether that page may be loaded again for some minutes: what is no secret."""


Act = Callable[[Sources, Asked], Done] | Callable[[Sources, Asked], Awaitable[Done]]


@dataclass(frozen=True, slots=True)
class Action:
    """The target of a form. `run` is a coroutine function, or blocks on a thread; `Asked.query` holds the form's fields."""

    path: str
    run: Act
    role: Role = Role.OPERATOR
    template: str = ""
    """Template of `Done.shown`."""
    name: str = ""
    """What the audit log calls it; empty: its path."""


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is made while it is sent, by GET; noted in the audit log."""

    path: str
    lines: Callable[[Sources, Asked], Iterator[bytes]]
    """Blocks: runs on a thread of its own. Raises BadParameter before it gives a line. Nothing in it is withheld by role."""
    name: str
    """Of the file."""
    role: Role = Role.VIEWER_CONTENT


@dataclass(frozen=True, slots=True)
class Page:
    """A page and its JSON twin."""

    path: str
    """In the syntax of aiohttp's router, such as /requests/{id}; the twin's path ends in .json."""
    title: str
    template: str
    summary: Callable[[Sources, Asked], Summary]
    """Blocks: runs on a thread. Raises BadParameter or NotThere."""
    section: str = ""
    """Path of the menu entry it belongs to; empty: its own."""
    in_menu: bool = True
    role: Role = Role.VIEWER
    charts: bool = False
    """Whether the charting library is loaded."""
    script: str = ""
    """A script of its own in admin/static/; empty for none."""
    actions: tuple[Action, ...] = ()
    downloads: tuple[Download, ...] = ()
    csv: str = ""
    """Key of the summary's list of flat rows that `path`.csv serves; empty for none."""
    follow: str = ""
    """Key of the summary that holds an address of ours to go to instead, if it is not empty; none for a page that shows
    itself always. The JSON twin names it and goes nowhere."""
