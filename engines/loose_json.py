"""JSON that others wrote, read without surprises: what is missing, or is of another type than it must be, is nothing.

Not for chunks of streams: each of these is a call.
"""

from __future__ import annotations

from typing import Any

import orjson


def parsed(written: bytes | str) -> Any:
    """Reads JSON; None for what is none."""
    try:
        return orjson.loads(written)
    except orjson.JSONDecodeError:
        return None


def parsed_object(written: bytes | str) -> dict[str, Any]:
    """The same of an object; an empty one for what is none."""
    value = parsed(written)
    return value if isinstance(value, dict) else {}


def member(value: Any, name: str) -> Any:
    """A member of an object; None where it has none, or is no object."""
    return value.get(name) if isinstance(value, dict) else None


def listed(value: Any) -> list[Any]:
    """A list; an empty one for what is none."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; none for what is no list."""
    return [each for each in listed(value) if isinstance(each, dict)]


def text(value: Any) -> str:
    """A string; an empty one for what is none."""
    return value if isinstance(value, str) else ""
