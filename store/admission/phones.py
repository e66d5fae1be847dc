"""Finds phone numbers in the forms people write them: international anywhere, national where form or context says phone.

The numbering plans are the phonenumbers library's. Its own text matcher is not used: it is two orders of magnitude
slower than finding candidates here and asking the library only about those.
"""

from __future__ import annotations

from collections.abc import Iterator

import phonenumbers

from store.admission.patterns import Pattern, before
from store.admission.spans import Span

REGIONS = ("US", "GB", "DE", "FR", "ES", "IT", "NL", "AU", "IN", "BR", "JP", "CH")
"""Whose national formats are tried for a number without a country code."""

_CANDIDATE = Pattern(
    r"(?:\+ ?\(?|\()?\d(?:[ ().\-/\x{a0}\x{2011}]{0,2}\d){6,17}(?:,? ?(?:ext(?:ension)?\.?|x|#) ?\d{1,5})?",
    needs="0123456789",
)
_WORDS = Pattern(
    r"\b(?:phones?|telephone|tel|telefon\w*|téléphone|teléfono|telefono|mobile?|mob|móvil|handy\w*|cell(?:phone)?|"
    r"fax|whatsapp|signal|sms|text me|call|calling|ring|reach|dial|contact|hotline|rufnummer|portable|"
    r"celular|numéro|number is|my number|ph)\b",
    any_case=True,
)
_NOT_PHONES = (
    "order",
    "invoice",
    "isbn",
    "ticket",
    "tracking",
    "version",
    "account",
    "ref",
    "serial",
    "timestamp",
)
_REACH = 40
_NEAR = 16


def phones(text: str) -> Iterator[Span]:
    """Phone numbers, extension included. Reserved fictitious US numbers (555-01xx) count: nobody can tell from afar."""
    for match in _CANDIDATE.all(text):
        start, end = match.start(), match.end()
        shown = match.group()
        if _piece_of_more(text, start, end) or shown.count("(") != shown.count(")"):
            if not shown.startswith("(") or ")" in shown:
                continue
            start, shown = start + 1, shown[1:]
        number = _international(shown) or _national(text, start, shown)
        if number is not None:
            yield Span("PHONE", start, end, number)


def _piece_of_more(text: str, start: int, end: int) -> bool:
    left, right = text[start - 1 : start], text[end : end + 1]
    after = text[end + 1 : end + 2]
    return (
        left.isalnum()
        or (
            (left != "" and left in "-_./$€£#=%&\\^*+:")
            and not (left in ":" and text[start - 2 : start - 1].isalpha())
        )
        or right.isalnum()
        or (right != "" and right in "_%=")
        or (right in (".", ",", ":", "-", "/") and after.isdigit())
    )


def _international(shown: str) -> str | None:
    written = "+" + shown[2:] if shown.startswith("00") else shown
    if not written.startswith("+"):
        return None
    return _valid(written.replace("(0)", ""), None)


def _national(text: str, start: int, shown: str) -> str | None:
    digits = sum(c.isdigit() for c in shown)
    if not 7 <= digits <= 16:
        return None
    ahead = before(text, start, _REACH).rpartition("\n")[2]
    if any(word in ahead[-_NEAR:] for word in _NOT_PHONES):
        return None
    if _like_north_america(shown) and (number := _valid(shown, "US")):
        return number
    named = _WORDS.within(ahead)
    grouped = (
        shown.startswith(("0", "(0")) and _groups(shown) >= 3 and digits >= 9 and not _like_a_date(shown)
    )
    if not named and not grouped:
        return None
    for region in REGIONS:
        if number := _valid(shown, region):
            return number
    # Words said it is a phone: a local number without an area code is one too.
    near = _WORDS.within(ahead[-_NEAR:])
    return "".join(c for c in shown if c.isdigit()) if near and _groups(shown) >= 2 else None


def _like_north_america(shown: str) -> bool:
    body = shown.lower().partition("x")[0].partition("e")[0].partition("#")[0].strip()
    body = body.removeprefix("1").lstrip(" -.")
    groups = [
        len(g) for g in body.replace("(", " ").replace(")", " ").replace("-", " ").replace(".", " ").split()
    ]
    return groups == [3, 3, 4]


def _groups(shown: str) -> int:
    return len("".join(c if c.isdigit() else " " for c in shown).split())


def _like_a_date(shown: str) -> bool:
    groups = "".join(c if c.isdigit() else " " for c in shown).split()
    return len(groups) == 3 and sorted(map(len, groups)) in ([2, 2, 4], [1, 2, 4], [1, 1, 4])


def _valid(written: str, region: str | None) -> str | None:
    try:
        number = phonenumbers.parse(written, region)
    except phonenumbers.NumberParseException:
        return None
    if not phonenumbers.is_valid_number(number):
        return None
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
