"""Whether a JSON value is of a schema: the keywords that describe arguments and answers of tools, and no others.

Of JSON Schema (draft 2020-12): type, enum, const, properties, required, additionalProperties, items, minItems, maxItems,
minLength, maxLength, minimum, maximum, anyOf. No references, no patterns, no formats: an unknown keyword is an error when
the configuration is read, since what is not checked would be taken for checked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engines.components.pointer import described

MAX_DEPTH = 16
_SILENT = frozenset(
    {"title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated"}
)
_NUMBER = ((int, float), "a number")
_KEYWORDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum"), _NUMBER),
    **dict.fromkeys(("enum", "required", "anyOf"), ((list,), "an array")),
    "properties": ((Mapping,), "an object"),
    **dict.fromkeys(("type", "const", "items", "additionalProperties"), ((object,), "anything")),
}
"""What each must be, and the same in words."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class Unfit(ValueError):
    """A value is not of its schema. The text names the place and the keyword, and what came by type and size."""


def check_schema(schema: Any, place: str = "") -> None:
    """Raise ValueError, naming place and remedy, where a schema holds what is not understood here."""
    where = place or "the schema"
    if place.count("/") > MAX_DEPTH:
        raise ValueError(f"{where} is nested deeper than {MAX_DEPTH}")
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise ValueError(f"{where} must be an object, not {described(schema)}")
    if unknown := sorted(set(schema) - _SILENT - _KEYWORDS.keys()):
        known = ", ".join(sorted(_KEYWORDS))
        raise ValueError(f"{where} has {unknown[0]!r}, which is not checked here; there are {known}")
    for kind in _types(schema):
        if kind not in _TYPES:
            raise ValueError(f"{where}/type is {kind!r}; there are {', '.join(_TYPES)}")
    for keyword in schema.keys() & _KEYWORDS.keys():
        kinds, wanted = _KEYWORDS[keyword]
        if not isinstance(schema[keyword], kinds) or (kinds == _NUMBER[0] and type(schema[keyword]) is bool):
            raise ValueError(f"{where}/{keyword} must be {wanted}")
    for below, inner in _inner(schema):
        check_schema(inner, f"{place}/{below}")


def _inner(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(where, schema) of all that stand within one."""
    yield from ((f"properties/{name}", inner) for name, inner in schema.get("properties", {}).items())
    yield from ((f"anyOf/{index}", inner) for index, inner in enumerate(schema.get("anyOf", ())))
    yield from (
        (keyword, schema[keyword]) for keyword in ("items", "additionalProperties") if keyword in schema
    )


def check(value: Any, schema: Any, place: str = "") -> None:
    """Raise Unfit where `value` is not of `schema`, which `check_schema` has seen."""
    if schema is True or (isinstance(schema, Mapping) and not schema):
        return
    if schema is False:
        raise _unfit(place, "must not be there")
    _check_type(value, schema, place)
    if isinstance(value, str):
        _check_size(len(value), schema, "Length", "characters", place)
    elif isinstance(value, list):
        _check_size(len(value), schema, "Items", "items", place)
        for index, item in enumerate(value):
            check(item, schema.get("items", True), f"{place}/{index}")
    elif isinstance(value, dict):
        _check_members(value, schema, place)
    elif _is(value, "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        raise _unfit(place, "is out of its range")
    if "anyOf" in schema and not any(_fits(value, each) for each in schema["anyOf"]):
        raise _unfit(place, f"is none of anyOf, but {described(value)}")


def _unfit(place: str, what: str) -> Unfit:
    return Unfit(f"{place or 'its root'} {what}")


def coerced(value: Any, schema: Any) -> Any:
    """What stands for a value where its schema wants no text and it is one: the JSON it holds, where it holds that.

    Values of steps are texts, also those that are numbers.
    """
    if not isinstance(schema, Mapping):
        return value
    kinds = _types(schema)
    if isinstance(value, str) and kinds and "string" not in kinds:
        try:
            read = json.loads(value, parse_constant=_finite, parse_float=_finite)
        except (ValueError, RecursionError):
            return value
        return coerced(read, schema) if any(_is(read, kind) for kind in kinds) else value
    if isinstance(value, dict):
        members = schema.get("properties", {})
        return {name: coerced(inner, members.get(name)) for name, inner in value.items()}
    if isinstance(value, list):
        return [coerced(item, schema.get("items")) for item in value]
    return value


def _finite(text: str) -> float:
    """A number of JSON, which has neither NaN nor infinity."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _check_type(value: Any, schema: Mapping[str, Any], place: str) -> None:
    kinds = _types(schema)
    if kinds and not any(_is(value, kind) for kind in kinds):
        raise _unfit(place, f"must be {' or '.join(kinds)}, and is {described(value)}")
    if not any(_same(value, each) for each in schema.get("enum", (value,))):
        raise _unfit(place, "is none of the values of its enum")
    if not _same(value, schema.get("const", value)):
        raise _unfit(place, "is not its const")


def _check_size(size: int, schema: Mapping[str, Any], of: str, unit: str, place: str) -> None:
    if size < schema.get(f"min{of}", 0) or size > schema.get(f"max{of}", size):
        raise _unfit(place, f"has {size} {unit}, against its min{of} or max{of}")


def _check_members(value: Mapping[str, Any], schema: Mapping[str, Any], place: str) -> None:
    members = schema.get("properties", {})
    if missing := [name for name in schema.get("required", ()) if name not in value]:
        raise _unfit(place, f"lacks {missing[0]!r}")
    for name, inner in value.items():
        further = members.get(name, schema.get("additionalProperties", True))
        if name not in members and further is False:
            raise _unfit(place, f"has {name[:40]!r}, which its schema does not know")
        check(inner, further, f"{place}/{name[:40]}")


def _fits(value: Any, schema: Any) -> bool:
    try:
        check(value, schema)
    except Unfit:
        return False
    return True


def _types(schema: Mapping[str, Any]) -> Sequence[str]:
    kinds = schema.get("type", ())
    return (kinds,) if isinstance(kinds, str) else tuple(kinds)


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool) and kind != "boolean":
        return False
    if kind == "integer" and isinstance(value, float) and not value.is_integer():
        return False
    return isinstance(value, _TYPES[kind])


def _same(left: Any, right: Any) -> bool:
    """As JSON has it: true is not 1."""
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
