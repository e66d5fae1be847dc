"""What a key, a tenant or an end user may use and spend: the one model of it.

The columns of the store, the admin API with its schemas, the forms, the options of commands and the configuration are made
from these fields: `title` is a form's label, `description` stands in schemas and in the help of options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo

from store.validating import CLOSED, fields_of, read, right, wrong

Period = Literal["day", "week", "month", "total"]
"""A calendar window in a time zone, a week from Monday; `total` never begins anew."""
PERIODS: tuple[Period, ...] = get_args(Period)
Partition = Literal["user", "tenant"]
"""Whose memory a request of a named end user reads and writes: the end user's own, or the tenant's."""
Kind = Literal["texts", "text", "count", "flag", "budgets"]
MOST_USD = 1e9
MOST_COUNT = 10**12
_MOST_DAYS = 36_525
_MOST_GLOBS = 200
_LONGEST_GLOB = 200
_LATEST_S = 1e11


def _checked_glob(glob: str) -> str:
    if not glob.isprintable() or glob != glob.strip():
        raise ValueError("not printable")
    return glob


def _checked_region(region: str) -> str:
    if not region.isprintable():
        raise ValueError("not printable")
    return region


def _checked_path(glob: str) -> str:
    if not glob.startswith(("/", "*")):
        raise ValueError("no path")
    return glob


def _checked_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, LookupError, OSError):
        raise ValueError("no zone") from None
    return name


def told(at_s: float | None) -> str | None:
    """A time in ISO 8601, UTC; None for none."""
    if at_s is None:
        return None
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")


def _read_moment(value: object, info: ValidationInfo) -> object:
    """Seconds since 1970 of a text in ISO 8601, UTC where it says no offset. From outside nothing else is read."""
    if isinstance(value, str):
        at = datetime.fromisoformat(value)
        try:
            return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
        except OverflowError:
            raise ValueError("out of the calendar") from None
    if info.context is not None:
        raise ValueError("no text")
    return value


Moment = Annotated[
    float,
    Field(strict=True, ge=0, lt=_LATEST_S),
    BeforeValidator(_read_moment),
    right("such as 2027-01-31T00:00:00Z"),
    PlainSerializer(told, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""Seconds since 1970; ISO 8601 in JSON."""
_Glob = Annotated[
    str, Field(strict=True, min_length=1, max_length=_LONGEST_GLOB), AfterValidator(_checked_glob)
]
Globs = Annotated[
    tuple[Annotated[_Glob, right(f"a text of 1 to {_LONGEST_GLOB} printable characters")], ...],
    Field(max_length=_MOST_GLOBS),
]
Paths = Annotated[
    tuple[
        Annotated[_Glob, AfterValidator(_checked_path), right("a path that begins with / or *")],
        ...,
    ],
    Field(max_length=_MOST_GLOBS),
]
Count = Annotated[
    int, Field(strict=True, ge=1, le=MOST_COUNT), right(f"a whole number from 1 to {MOST_COUNT}")
]
Flag = Annotated[bool, Field(strict=True), right("true or false")]
Days = Annotated[
    float,
    Field(strict=True, gt=0, le=_MOST_DAYS),
    right(f"a number of days above 0 and up to {_MOST_DAYS}"),
]
Region = Annotated[
    str,
    Field(
        strict=True,
        max_length=64,
        description="Only engines of this region answer it; empty: any engine.",
    ),
    AfterValidator(_checked_region),
    right("a text of at most 64 printable characters"),
]


@dataclass(frozen=True, slots=True, config=CLOSED)
class Budget:
    """The most dollars within one period. 0 leaves only what costs nothing, such as repeats."""

    usd: Annotated[float, Field(strict=True, ge=0, le=MOST_USD), right(f"a number from 0 to {MOST_USD:g}")]
    per: Annotated[Period, right(f"one of {', '.join(PERIODS)}")]


def _one_per_period(budgets: tuple[Budget, ...]) -> tuple[Budget, ...]:
    if len({budget.per for budget in budgets}) < len(budgets):
        raise wrong("has two of the same period; one per period is right")
    return budgets


@dataclass(frozen=True, slots=True, config=CLOSED)
class Limits:
    """What somebody may use. As it is made by default it allows everything that is stateless, without a limit."""

    models: Globs = Field(
        default=(), title="Models", description="Models that may be used, such as gpt-4*; without any: all."
    )
    endpoints: Paths = Field(
        default=(),
        title="Endpoints",
        description="Endpoints that may be used, such as /chat/completions and /files*; without any: every stateless one. "
        "Those with state open only by being listed.",
    )
    requests_per_minute: Count | None = Field(
        default=None, title="Requests per minute", description="Requests within a minute."
    )
    tokens_per_minute: Count | None = Field(
        default=None, title="Tokens per minute", description="Tokens within a minute, in and out."
    )
    concurrency: Count | None = Field(
        default=None, title="Concurrent requests", description="Requests under way at once."
    )
    max_output_tokens: Count | None = Field(
        default=None,
        title="Output tokens of one request",
        description="Largest output of one request, in tokens.",
    )
    budgets: Annotated[tuple[Budget, ...], AfterValidator(_one_per_period)] = Field(
        default=(),
        title="Budgets",
        description="Most dollars per day, week, month or in total; one per period.",
    )
    time_zone: Annotated[
        str,
        Field(strict=True),
        AfterValidator(_checked_zone),
        right("a name such as UTC or Europe/Berlin"),
    ] = Field(
        default="UTC",
        title="Time zone of budgets",
        description="In which a budget's day, week or month begins, such as Europe/Berlin.",
    )
    allow_unpriced: Flag = Field(
        default=False,
        title="models without a price, beside a budget",
        description="Whether models without a price may be used despite a budget, which they then do not count against.",
    )
    components: Globs = Field(
        default=(),
        title="Components of workflows",
        description="Components that steps of workflows may ask; without any: all.",
    )


@dataclass(frozen=True, slots=True, config=CLOSED)
class Terms:
    """What may be changed about a key and a tenant alike."""

    limits: Limits = Field(default=Limits(), kw_only=True, description="What it may use and spend.")
    each_user: Limits = Field(
        default=Limits(), kw_only=True, description="What every single end user of it may use and spend."
    )
    expires_at_s: Moment | None = Field(
        default=None,
        kw_only=True,
        validation_alias="expires_at",
        serialization_alias="expires_at",
        description="When it stops being taken, such as 2027-01-31T00:00:00Z; UTC without an offset.",
    )
    partition: Annotated[Partition | None, right("user or tenant")] = Field(
        default=None,
        kw_only=True,
        description="Whether its named end users have a memory each; null: as the tenant, else memory.partition, has it.",
    )
    users_required: Flag | None = Field(
        default=None,
        kw_only=True,
        description="Whether a request without an end user is refused; null: as elsewhere.",
    )


@dataclass(frozen=True, slots=True, config=CLOSED)
class Retention:
    """For how many days what is kept of a tenant is kept; None: as the configuration has it."""

    texts_days: Days | None = Field(default=None, description="What was asked and answered.")
    rows_days: Days | None = Field(default=None, description="One row per request.")
    examples_days: Days | None = Field(default=None, description="Examples.")


UNLIMITED = Limits()
_MOMENT: TypeAdapter[float | None] = TypeAdapter(Moment | None)


def at_s(value: object, name: str) -> float | None:
    """Seconds since 1970 of a time in ISO 8601, UTC where it says no offset; None for null. Raises ValueError."""
    return read(_MOMENT, value, name)


def said_of(record: Terms) -> Mapping[str, Any]:
    """The values of a record's terms by the names of their fields."""
    return {each.name: getattr(record, each.name) for each in fields(Terms)}


def names_of(kind: type[Any]) -> list[str]:
    """The names of a model's fields in JSON."""
    return [str(field.validation_alias or name) for name, field in fields_of(kind).items()]


def kind_of(field: FieldInfo) -> Kind:
    """How a limit is asked for, by its default: an option and a control of a form is made for each kind."""
    if field.title == "Budgets":
        return "budgets"
    kinds: dict[type[Any], Kind] = {tuple: "texts", str: "text", bool: "flag"}
    return kinds.get(type(field.default), "count")
