"""How values go to PostgreSQL and come back, so that they are what SQLite would give: int, float, str, bytes, None."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.types.numeric import Int8Dumper, NumericBinaryLoader, NumericLoader
from psycopg.types.string import StrDumperUnknown


def cleaned(values: Iterable[Any]) -> list[Any]:
    """Values as they can be sent: a bool is 0 or 1, and NaN nothing, as in SQLite; a text has U+FFFD for U+0000, which
    PostgreSQL refuses.

    Not by dumpers of psycopg: those of Python cost ten times as much as its own.
    """
    return [_clean(value) for value in values]


def _clean(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return value.replace("\0", "\ufffd") if "\0" in value else value
    if kind is bool:
        return int(value)
    if value != value:
        return None
    return value


def _number(said: Decimal) -> int | float:
    exponent = said.as_tuple().exponent
    return int(said) if exponent == 0 else float(said)


class _NumericAsNumber(NumericLoader):
    """Sums of `bigint` are `numeric`: an int where it has no places after the point, else a float."""

    def load(self, data: Buffer) -> Any:
        return _number(super().load(data))


class _BinaryNumericAsNumber(NumericBinaryLoader):
    def load(self, data: Buffer) -> Any:
        return _number(super().load(data))


def adapt(connection: psycopg.Connection[Any]) -> None:
    """Register on a connection how numbers and texts go and come."""
    adapters = connection.adapters
    # Always 64 bits: with the smallest type that fits, one statement would be prepared for every width.
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_dumper(str, StrDumperUnknown)
    adapters.register_loader("numeric", _NumericAsNumber)
    adapters.register_loader("numeric", _BinaryNumericAsNumber)
