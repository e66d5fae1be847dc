"""The store's SQL as PostgreSQL reads it. Knows no table.

Written once for both, a statement has `?`, `?1` or `:name` where psycopg has `%s` and `%(name)s`, INTEGER and REAL where
PostgreSQL has 64 bits in `bigint` and `double precision`. What else differs are functions that the schema defines.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from store.postgres.adapting import cleaned

_TOKEN = re.compile(
    r"(?P<text>'(?:[^']|'')*')|(?P<quoted>\"[^\"]*\")|(?P<cast>::)|(?P<numbered>\?\d+)|(?P<mark>\?)"
    r"|:(?P<name>[a-z_]\w*)|(?P<percent>%)|(?P<plus>(?<=[ (])\+(?=[a-z]))"
    r"|(?P<cross>\bCROSS JOIN\b)|(?P<type>\bAS (?:INTEGER|REAL|BLOB)(?=\)))|(?P<is>\bIS (?:NOT )?(?=[?:]))",
    re.IGNORECASE,
)
_TRUNCATED = re.compile(r"\bCAST\(([^()?:]+(?:[?]\d*)?) AS INTEGER\)", re.IGNORECASE)
"""PostgreSQL rounds where SQLite cuts off: a function of the schema does as SQLite."""
_OF_NO_TYPE = re.compile(r"(%s|%\(\w+\)s)( IS (?:NOT )?NULL)", re.IGNORECASE)
"""Nothing tells PostgreSQL the type of a parameter that is only compared with NULL."""
_TYPES = {"INTEGER": "bigint", "REAL": "double precision", "BLOB": "bytea"}


@lru_cache(maxsize=4096)
def translated(sql: str) -> str:
    """`sql` with psycopg's placeholders and PostgreSQL's types. A numbered `?1` becomes `%(p1)s`."""

    def one(found: re.Match[str]) -> str:
        kind, said = found.lastgroup, found[0]
        if kind == "text":
            return said.replace("%", "%%")
        if kind == "numbered":
            return f"%(p{said[1:]})s"
        if kind == "mark":
            return "%s"
        if kind == "name":
            return f"%({found['name']})s"
        if kind == "percent":
            return "%%"
        if kind == "plus":
            # SQLite's way to keep an index from being used.
            return ""
        if kind == "cross":
            # SQLite's way to fix the order of a join; each has an ON.
            return "JOIN"
        if kind == "type":
            return f"AS {_TYPES[said.split()[1].upper()]}"
        if kind == "is":
            return "IS DISTINCT FROM " if "NOT" in said.upper() else "IS NOT DISTINCT FROM "
        return said

    return _OF_NO_TYPE.sub(r"\1::text\2", _TOKEN.sub(one, _TRUNCATED.sub(r"as_integer(\1)", sql)))


@lru_cache(maxsize=4096)
def is_numbered(sql: str) -> bool:
    """Whether the statement says `?1`."""
    return any(found.lastgroup == "numbered" for found in _TOKEN.finditer(sql))


def arguments(sql: str, parameters: Any) -> Any:
    """`parameters` as the translated statement takes them: see also `cleaned`."""
    if isinstance(parameters, dict):
        return dict(zip(parameters, cleaned(parameters.values()), strict=True))
    values = cleaned(parameters)
    if not is_numbered(sql):
        return values
    return {f"p{place}": value for place, value in enumerate(values, 1)}


def is_reading(sql: str) -> bool:
    """Whether a statement changes nothing."""
    return sql.lstrip()[:6].upper() == "SELECT"
