"""Reads of a form what decides who may send it: its model, its end user, and the names of its fields.

The form itself is passed on as it came. What two readers could take for different fields is refused.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from engines.errors import RequestError

_FIELD = re.compile(rb"(?i)content-disposition[ \t]*:([^\r\n]*)\r?\n((?:[^\r\n]+\r?\n)*)\r?\n")
_NAME = re.compile(rb"""(?i);[ \t]*name=(?:"([^"\\]*)"|([^\s;"]+))""")
_ODD = re.compile(rb"(?i)name[ \t]*\*|name[ \t]+=|name=[ \t]|\bname=\"[^\"]*\\")
_READ = frozenset({"model", "user", "safety_identifier", "n"})
_GIVEN = "a field of a form"
_LONGEST_VALUE = 2**16


def form_fields(raw: bytes) -> dict[str, str]:
    """The fields of a form by name, with the values of those that matter here; that others are given.

    Raises RequestError (400) for a field whose name cannot be read for certain, and for a model given twice.
    """
    found: dict[str, str] = {}
    if raw and not raw.lstrip(b"\r\n").startswith(b"--"):
        raise RequestError("The body says that it is a form, and is none.", code="invalid_form")
    for part in _FIELD.finditer(raw):
        name = _name(part[1])
        value = _GIVEN
        if name in _READ:
            if name in found:
                raise RequestError(f"The form has the field {name!r} twice.", code="invalid_form", param=name)
            end = raw.find(b"\r\n", part.end())
            value = raw[part.end() : min(end if end >= 0 else len(raw), part.end() + _LONGEST_VALUE)].decode(
                "utf-8", "replace"
            )
        found[name] = value
        found |= dict.fromkeys(set(_plain(name).replace("]", "[").split("[")) - _READ - {""}, value)
    return found


def _plain(name: str) -> str:
    """A name as the most forgiving server reads it; in brackets are the names of what is within (`image[file_id]`)."""
    return unquote(name).lower()


def _name(disposition: bytes) -> str:
    match = _NAME.search(disposition)
    if match is None or _ODD.search(disposition) or len(_NAME.findall(disposition)) > 1:
        raise RequestError(
            "A field of the form has a name that cannot be read for certain.", code="invalid_form"
        )
    return (match[1] if match[1] is not None else match[2]).decode("utf-8", "replace")
