"""Values that come from outside: read into a pydantic model, or refused in a sentence that is the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError, WrapValidator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

T = TypeVar("T")
_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}

CLOSED = ConfigDict(extra="forbid", allow_inf_nan=False, populate_by_name=True)
"""How a model is read: another name than its fields' is refused, and so is a number that is none."""
FROM_OUTSIDE = {"outside": True}
"""The context of validators when a value comes from outside, and not from our own code."""


def right(sentence: str) -> WrapValidator:
    """Has whatever refuses the value say `sentence`, such as `a whole number from 1 to 9`: `is right` is put behind it."""

    def checked(value: Any, inner: Any) -> Any:
        try:
            return inner(value)
        except ValidationError:
            raise PydanticCustomError("right", "{sentence} is right", {"sentence": sentence}) from None

    return WrapValidator(checked)


def wrong(sentence: str) -> PydanticCustomError:
    """An error of a value as a whole, said behind its name: `has two of the same period; one is right`."""
    return PydanticCustomError("wrong", "{sentence}", {"sentence": sentence})


def adapter(kind: type[T]) -> TypeAdapter[T]:
    """Reads and writes a model. It is made once: that takes milliseconds."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def read(kind: type[T] | TypeAdapter[T], value: object, where: str = "") -> T:
    """The model that a JSON value says. Raises ValueError naming the first wrong field below `where`."""
    reader = kind if isinstance(kind, TypeAdapter) else adapter(kind)
    try:
        return reader.validate_python(value, context=FROM_OUTSIDE)
    except ValidationError as error:
        raise ValueError(refusal(error, reader, where)) from None


def fields_of(kind: type[Any]) -> dict[str, FieldInfo]:
    """The fields of a model by name, with their titles, descriptions and defaults."""
    found: dict[str, FieldInfo] = kind.__pydantic_fields__
    return found


def what_differs(value: Any) -> dict[str, Any]:
    """A model as a JSON object: those fields that are not as by default."""
    found: dict[str, Any] = adapter(type(value)).dump_python(
        value, mode="json", by_alias=True, exclude_defaults=True
    )
    return found


def without_nulls(value: Any) -> Any:
    """The objects within this one without what is null: it takes a value back to its default (RFC 7396)."""
    if not isinstance(value, Mapping):
        return value
    return {name: without_nulls(one) for name, one in value.items() if one is not None}


def refusal(error: ValidationError, reader: TypeAdapter[Any], where: str = "") -> str:
    """A sentence on the first wrong value: its name, itself, and what would be right."""
    problem = error.errors()[0]
    *parents, name = problem["loc"] or ("",)
    parent, path = _path(where, parents), _path(where, list(problem["loc"]))
    match problem["type"]:
        case "unexpected_keyword_argument" | "extra_forbidden":
            has = f"{parent} has" if parent else "there is"
            return f"{has} {shown(name)}, which is not known; known: {', '.join(_known(reader, parents))}"
        case "missing":
            return f"{parent or 'this'} has no {name}"
        case "too_long":
            most, found = problem["ctx"]["max_length"], problem["ctx"]["actual_length"]
            return f"{path} has {found} entries; {most} are the most"
        case "wrong":
            return f"{path} {problem['msg']}"
    return f"{path or 'this'} is {shown(problem['input'])}; {_right(problem)}"


def shown(value: object) -> str:
    """A value for an error message, cut to a length that a log line bears."""
    if isinstance(value, str):
        value = value[:60]
    elif isinstance(value, int) and abs(value) > 10**20:
        return "a number of more than 20 digits"
    return repr(value)[:80]


_RIGHT = {"tuple_type": "a list is right", "dataclass_type": "an object is right"}


def _right(problem: ErrorDetails) -> str:
    message = _RIGHT.get(problem["type"], problem["msg"])
    return message[:1].lower() + message[1:]


def _path(where: str, parts: list[int | str]) -> str:
    for part in parts:
        where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else part
    return where


def _known(reader: TypeAdapter[Any], parents: list[int | str]) -> list[str]:
    """The names of the fields of the object that `parents` lead to."""
    schema = reader.json_schema()
    below = schema
    for part in parents:
        below = below["items"] if isinstance(part, int) else below["properties"][part]
        if "$ref" in below:
            below = schema["$defs"][below["$ref"].rpartition("/")[2]]
    return list(below["properties"])
