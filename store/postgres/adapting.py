"""How values go to PostgreSQL and come back, so that they are what SQLite would give: int, float, str, bytes, None."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.types.numeric import FloatDumper, Int8Dumper, NumericBinaryLoader, NumericLoader
from psycopg.types.string import StrDumperUnknown


class _BoolAsInt(Dumper):
    """A bool as 0 or 1: columns are integers, as in SQLite."""

    oid = psycopg.postgres.types["int8"].oid

    def dump(self, obj: Any) -> Buffer | None:
        return b"1" if obj else b"0"


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


class _Float(FloatDumper):
    """NaN is nothing, as in SQLite."""

    def dump(self, obj: float) -> Buffer | None:
        return super().dump(obj) if obj == obj else None


class _Text(StrDumperUnknown):
    """A text without U+0000, which PostgreSQL refuses: what is kept has U+FFFD in its place."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "\ufffd") if "\0" in obj else obj)


def adapt(connection: psycopg.Connection[Any]) -> None:
    """Register all this on a connection."""
    adapters = connection.adapters
    adapters.register_dumper(bool, _BoolAsInt)
    # Always 64 bits: with the smallest type that fits, one statement would be prepared for every width.
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_dumper(float, _Float)
    adapters.register_dumper("numpy.float64", _Float)
    adapters.register_dumper(str, _Text)
    adapters.register_loader("numeric", _NumericAsNumber)
    adapters.register_loader("numeric", _BinaryNumericAsNumber)
