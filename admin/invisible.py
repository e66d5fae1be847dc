"""Writes invisible characters as escapes: bidirectional controls, zero-width and control characters disguise a text.

Only where a text is read: values of form fields, addresses and everything else that a browser sends back stay as they are.
"""

from __future__ import annotations

import re

# The joiners are part of how many scripts and emoji are written; beside ASCII they only hide.
_INVISIBLE = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff"
)
_FOUND = re.compile(
    rf"[{_INVISIBLE}]|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])", re.ASCII
)
_MARKUP = re.compile(r"(<textarea\b.*?</textarea>|<[^>]*>)", re.DOTALL)
_READ = re.compile(r'(?<=\s)(title|aria-label|placeholder|data-confirm|alt|label)="([^"]*)"')
_IN_JSON = re.compile(
    r"(?<!\\)((?:\\\\)*)\\(u00[0189][0-9a-f]|u007f|u00ad|u061c|u180e|u200[b-f]|u202[89a-e]|u206[0-9a-f]|ufeff|ufff[9ab]|udb40\\udc[0-9a-f]{2})"
)


def escaped(text: str) -> str:
    r"""The text with every invisible character as an escape, such as \u202e."""
    return _FOUND.sub(lambda found: _escape(found[0]), text)


def escaped_html(page: str) -> str:
    """A page of ours with invisible characters escaped where they are read: between tags, and in texts of attributes."""
    if not _FOUND.search(page):
        return page
    parts = _MARKUP.split(page)
    for place, part in enumerate(parts):
        if place % 2 == 0:
            parts[place] = escaped(part)
        elif not part.startswith("<textarea"):
            parts[place] = _READ.sub(lambda found: f'{found[1]}="{escaped(found[2])}"', part)
    return "".join(parts)


def escaped_json(data: bytes) -> bytes:
    """JSON that says the same, in which invisible characters are written as JSON's escapes."""
    if data.isascii():
        return data
    return _FOUND.sub(lambda found: _json_escape(found[0]), data.decode()).encode()


def escaped_ascii_json(text: str) -> str:
    r"""JSON for a chart, all ASCII, whose strings show \u202e where that character was."""
    return _IN_JSON.sub(lambda found: found[1] + "\\\\" + found[2].replace("\\u", "\\\\u"), text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(character: str) -> str:
    code = ord(character)
    if character in "\n\r\t" or code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
