"""What a key, a tenant or an end user may use and spend. Values only: nothing here counts, and nothing refuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo

Period = Literal["day", "week", "month", "total"]
"""A calendar window in a time zone, a week from Monday; `total` never begins anew."""
PERIODS: tuple[Period, ...] = get_args(Period)
MOST_USD = 1e9
MOST_COUNT = 10**12
_MOST_GLOBS = 200
_LONGEST_GLOB = 200
_GLOBS = ("models", "components", "endpoints")


@dataclass(frozen=True, slots=True)
class Budget:
    """The most dollars within one period. 0 leaves only what costs nothing, such as repeats."""

    usd: float
    per: Period

    def __post_init__(self) -> None:
        """Raises ValueError for a period that is none, and for dollars that are negative, no number or too many."""
        if self.per not in PERIODS:
            raise ValueError(f"per is {_shown(self.per)}; one of {', '.join(PERIODS)} is right")
        if not _is_number(self.usd) or not 0 <= self.usd <= MOST_USD:
            raise ValueError(f"usd is {_shown(self.usd)}; a number from 0 to {MOST_USD:g} is right")


@dataclass(frozen=True, slots=True)
class Limits:
    """What somebody may use. As it is made by default it allows everything that is stateless, without a limit.

    Raises ValueError naming the field, where a value cannot be right.
    """

    models: tuple[str, ...] = ()
    """Globs of model names, such as `gpt-4*`; empty: all."""
    endpoints: tuple[str, ...] = ()
    """Globs of paths below the prefix, such as `/chat/completions` and `/files*`; empty: every stateless one. Endpoints with
    state open only by being listed."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None
    """Requests under way at once."""
    max_output_tokens: int | None = None
    """Of one request."""
    budgets: tuple[Budget, ...] = ()
    """At most one per period."""
    time_zone: str = "UTC"
    """In which a budget's day, week or month begins: an IANA name."""
    allow_unpriced: bool = False
    """Whether models without a price may be used despite a budget, which they then do not count against."""
    components: tuple[str, ...] = ()
    """Globs of components that steps of workflows may ask; empty: all."""

    def __post_init__(self) -> None:
        """Checks each value."""
        for name in _GLOBS:
            _check_globs(name, getattr(self, name))
        for name in _COUNTS:
            count = getattr(self, name)
            if count is not None and (type(count) is not int or not 1 <= count <= MOST_COUNT):
                raise ValueError(f"{name} is {_shown(count)}; a whole number from 1 to {MOST_COUNT} is right")
        periods = [budget.per for budget in self.budgets]
        if len(set(periods)) < len(periods):
            raise ValueError("budgets has two of the same period; one per period is right")
        _check_zone(self.time_zone)
        if type(self.allow_unpriced) is not bool:
            raise ValueError(f"allow_unpriced is {_shown(self.allow_unpriced)}; true or false is right")


_COUNTS = ("requests_per_minute", "tokens_per_minute", "concurrency", "max_output_tokens")


def limits_from(value: object, where: str = "") -> Limits:
    """The limits that a JSON object says; what it does not name is as by default.

    Raises ValueError that names the field below `where`: for another type, an unknown name, or a value out of bounds.
    """
    below = f"{where}." if where else ""
    if not isinstance(value, Mapping):
        raise ValueError(f"{where or 'this'} is {_shown(value)}; an object is right")
    _check_names(value, Limits, f"{where} has" if where else "there is")
    taken: dict[str, Any] = dict(value)
    for name in _GLOBS:
        if name in taken:
            taken[name] = tuple(_listed(taken[name], below + name))
    if "budgets" in taken:
        listed = enumerate(_listed(taken["budgets"], below + "budgets"))
        taken["budgets"] = tuple(_budget(each, f"{below}budgets[{at}]") for at, each in listed)
    try:
        return Limits(**taken)
    except ValueError as error:
        raise ValueError(f"{below}{error}") from None


def as_json(limits: Limits) -> dict[str, Any]:
    """The JSON object that `limits_from` reads as these limits: what differs from the default."""
    found: dict[str, Any] = {}
    for each in fields(Limits):
        value = getattr(limits, each.name)
        if value != each.default:
            found[each.name] = list(value) if isinstance(value, tuple) else value
    if limits.budgets:
        found["budgets"] = [{"usd": budget.usd, "per": budget.per} for budget in limits.budgets]
    return found


def _budget(value: object, where: str) -> Budget:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} is {_shown(value)}; an object with usd and per is right")
    _check_names(value, Budget, f"{where} has")
    try:
        return Budget(**value)
    except ValueError as error:
        raise ValueError(f"{where}.{error}") from None


def _check_names(value: Mapping[str, Any], of: type, has: str) -> None:
    known = {each.name: each for each in fields(of)}
    for name in value:
        if name not in known:
            raise ValueError(f"{has} {_shown(name)}, which is not known; known: {', '.join(known)}")
    for name, each in known.items():
        if each.default is MISSING and name not in value:
            raise ValueError(f"{has} no {name}")


def _listed(value: object, where: str) -> Iterable[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{where} is {_shown(value)}; a list is right")
    return value


def _check_globs(name: str, globs: tuple[str, ...]) -> None:
    if len(globs) > _MOST_GLOBS:
        raise ValueError(f"{name} has {len(globs)} entries; {_MOST_GLOBS} are the most")
    for glob in globs:
        readable = isinstance(glob, str) and 0 < len(glob) <= _LONGEST_GLOB
        if not readable or not glob.isprintable() or glob != glob.strip():
            raise ValueError(
                f"{name} has {_shown(glob)}; 1 to {_LONGEST_GLOB} printable characters are right"
            )
        if name == "endpoints" and not glob.startswith(("/", "*")):
            raise ValueError(f"{name} has {_shown(glob)}; a path that begins with / is right")


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ValueError, LookupError, OSError, TypeError):
        raise ValueError(
            f"time_zone is {_shown(name)}; a name such as UTC or Europe/Berlin is right"
        ) from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """A value for an error message, cut to a length that a log line bears."""
    if isinstance(value, str):
        value = value[:60]
    elif isinstance(value, int) and abs(value) > 10**20:
        return "a number of more than 20 digits"
    return repr(value)[:80]


UNLIMITED = Limits()
