"""What a JSON pointer (RFC 6901) names in a value."""

from __future__ import annotations

import re
from typing import Any

_POINTER = re.compile(r"(/([^~/]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class Missing(LookupError):
    """The pointer names nothing. The text says how far it led, and what is there instead."""


def checked(pointer: str) -> str:
    """The pointer itself. Raises ValueError where it is none."""
    if not _POINTER.fullmatch(pointer):
        raise ValueError(f'{pointer!r} is no JSON pointer (RFC 6901); write "" or "/a/0"')
    return pointer


def pointed(value: Any, pointer: str) -> Any:
    """What it names. Raises Missing."""
    at = ""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and _INDEX.fullmatch(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            raise Missing(f"nothing at {pointer}: {at or 'its root'} is {described(value)}")
        at += f"/{token}"
    return value


def described(value: Any) -> str:
    """What a value is, by its type and size alone: never what it says. The names of members are told."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return f"a text of {len(value)} characters"
        case list():
            return f"an array of {len(value)}"
        case dict():
            names = ", ".join(sorted(str(name)[:40] for name in value)[:8])
            return f"an object with {names}" if names else "an empty object"
    return type(value).__name__
