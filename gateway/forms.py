"""Reads a form (multipart/form-data) once for all that decide by it: its model, its end user, and the names of its fields.

The form itself is passed on as it came, but for its model. What two readers could take for different forms is refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from engines.errors import RequestError

_NAMES = re.compile(r"(?i)(?<![a-z])name\s*=")
"""What some reader takes for the name of a field, also within the name of a file."""
_ODD = re.compile(r'(?i)\bname\s*\*|name\s+=|name=\s|\bname="[^"]*\\|[\n\0]')
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=?-]{1,70}")
"""RFC 2046 §5.1.1, without spaces."""
_BOUNDARIES = re.compile(r"(?i)[;\s]boundary\s*\*?[0-9]*\*?\s*=")
_READ = frozenset({"model", "user", "safety_identifier", "n"})
_SPELLED = frozenset(re.sub("[^a-z]", "", name) for name in _READ)
_AS_IT_IS = frozenset({"7bit", "8bit", "binary"})
_GIVEN = "a field of a form"
_LONGEST_VALUE = 2**16
_MOST_PARTS = 1000


class Form(NamedTuple):
    """A form that was read."""

    raw: bytes
    boundary: bytes
    fields: dict[str, str]
    """The fields by name, with the values of those that matter here; that others are given."""
    model_at: slice
    """Where the model stands in `raw`; empty if the form names none."""

    def with_model(self, model: str) -> bytes:
        """Its bytes for another model, which is the first field where it named none."""
        if "model" in self.fields:
            return b"".join([self.raw[: self.model_at.start], model.encode(), self.raw[self.model_at.stop :]])
        part = b'--%b\r\nContent-Disposition: form-data; name="model"\r\n\r\n%b\r\n'
        return part % (self.boundary, model.encode()) + self.raw.lstrip(b"\r\n")

    def for_model(self, model: str) -> Form:
        """The same form for another model."""
        return _read(self.with_model(model), self.boundary)


def read_form(raw: bytes, content_type: str) -> Form:
    """The form in a body of this Content-Type.

    Raises RequestError (400) for what is no whole form, for a field whose name cannot be read for certain or is nearly that
    of one that counts here (`Model`, `model[]`), and for a field that counts here and is given twice.
    """
    return _read(raw, _boundary(content_type))


def _read(raw: bytes, boundary: bytes) -> Form:
    parts = _parts(raw, boundary)
    found: dict[str, str] = {}
    model_at = slice(0, 0)
    for part in parts:
        name, is_file = _name(part.header("content-disposition"))
        value = _GIVEN
        if name in _READ:
            if name in found:
                raise _refused(f"The form has the field {name!r} twice.", name)
            if is_file or part.header("content-transfer-encoding", "8bit").strip().lower() not in _AS_IT_IS:
                raise _refused(f"The form's field {name!r} is not plain text.", name)
            if name == "model":
                model_at = part.data
            value = raw[part.data][:_LONGEST_VALUE].decode("utf-8", "replace")
        elif re.sub("[^a-z]", "", _plain(name)) in _SPELLED:
            raise _refused(
                f"Some servers read the form's field {name[:60]!r} as another that counts here.", name[:60]
            )
        found[name] = value
        found |= dict.fromkeys(set(_plain(name).replace("]", "[").split("[")) - _READ - {""}, value)
    return Form(raw, boundary, found, model_at)


class _Part:
    """A field or a file: its headers, and where its content stands."""

    __slots__ = ("data", "headers")

    def __init__(self) -> None:
        self.headers: list[list[bytes]] = []
        self.data = slice(0, 0)

    def header(self, name: str, default: str | None = None) -> str:
        values = [value for key, value in self.headers if key.lower() == name.encode()]
        if len(values) > 1 or (not values and default is None) or any(b"\n" in v for _, v in self.headers):
            raise _unclear()
        return values[0].decode("latin-1") if values else default or ""


def _parts(raw: bytes, boundary: bytes) -> list[_Part]:
    """All parts of the form, of which none but the library decides where they begin and end."""
    parts: list[_Part] = []
    ended: list[bool] = []

    def begin() -> None:
        if len(parts) == _MOST_PARTS:
            raise _refused(f"The form has more than {_MOST_PARTS} fields.")
        parts.append(_Part())

    def data(data: bytes, start: int, end: int) -> None:
        # The whole form is one chunk, so this is called once a part, with places in it.
        parts[-1].data = slice(start, end)

    parser = MultipartParser(
        boundary,
        {
            "on_part_begin": begin,
            "on_header_begin": lambda: parts[-1].headers.append([b"", b""]),
            "on_header_field": lambda data, start, end: _put(parts[-1], 0, data[start:end]),
            "on_header_value": lambda data, start, end: _put(parts[-1], 1, data[start:end]),
            "on_part_data": data,
            "on_end": lambda: ended.append(True),
        },
    )
    try:
        parser.write(raw)
    except FormParserError as error:
        raise _refused("The body says that it is a form, and is none.") from error
    # A line that another reader takes for a boundary, also before the first and after the last, would part it otherwise.
    delimiter = b"--" + boundary
    lines = raw.count(b"\n" + delimiter) + raw.startswith(delimiter)
    if not ended or lines != len(parts) + 1 or not raw.lstrip(b"\r\n").startswith(delimiter):
        raise _refused("The body says that it is a form, and is no whole one.")
    return parts


def _put(part: _Part, which: int, piece: bytes) -> None:
    part.headers[-1][which] += piece


def _boundary(content_type: str) -> bytes:
    options = parse_options_header(content_type)[1]
    boundary = options.get(b"boundary", b"")
    if len(_BOUNDARIES.findall(content_type)) != 1 or not _BOUNDARY.fullmatch(boundary.decode("latin-1")):
        raise _refused("The Content-Type of the form names no boundary that can be read for certain.")
    return boundary


def _name(disposition: str) -> tuple[str, bool]:
    """(name of the field, whether it is a file)."""
    kind, options = parse_options_header(disposition)
    name = options.get(b"name")
    odd = _ODD.search(disposition) is not None or len(_NAMES.findall(disposition)) != 1
    if kind != b"form-data" or name is None or odd:
        raise _unclear()
    return name.decode("utf-8", "replace"), "filename" in disposition.lower()


def _plain(name: str) -> str:
    """A name as the most forgiving server reads it; in brackets are the names of what is within (`image[file_id]`)."""
    return unquote(name).lower()


def _unclear() -> RequestError:
    return _refused("A field of the form has a name that cannot be read for certain.")


def _refused(text: str, param: str | None = None) -> RequestError:
    return RequestError(text, code="invalid_form", param=param)
