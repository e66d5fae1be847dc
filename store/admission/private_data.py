"""Finds personal data that has a form: addresses of mail, phone, bank, network and street, cards, numbers of persons.

Names, faces of a story ("my neighbour, the dentist") and anything else without a form are beyond patterns: see
docs/explanation/admission.md for what is found and what is not. No network, no model; every function is pure and
linear in the text.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator

from stdnum import iban, luhn

from store.admission.national_ids import national_ids
from store.admission.patterns import Pattern, before, touches_word
from store.admission.phones import phones
from store.admission.places import places
from store.admission.spans import Span, apart

_EMAIL = Pattern(
    r"[\pL\pN][\pL\pN._%+'-]*@[\pL\pN](?:[\pL\pN-]*[\pL\pN])?(?:\.[\pL\pN](?:[\pL\pN-]*[\pL\pN])?)*\.[\pL]{2,}",
    needs="@",
)
_SPELT_EMAIL = Pattern(
    r"[\pL\pN][\pL\pN._%+-]* ?[\[({]\s?at\s?[\])}] ?[\pL\pN-]+"
    r"(?: ?(?:\.|[\[({]\s?(?:dot|\.)\s?[\])}]| dot ) ?[\pL\pN-]+)+",
    needs="[({",
    any_case=True,
)
_NOT_MAIL_ENDINGS = frozenset(
    {"png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "ts", "html", "py", "md", "json"}
    | {"test", "invalid", "localhost", "example", "local"}
)
_RESERVED_DOMAINS = ("example.com", "example.org", "example.net")
_CARD = Pattern(r"\d(?:[ -]?\d){12,18}", needs="0123456789")
_IBAN = Pattern(r"[A-Za-z]{2}\d{2}(?: ?[A-Za-z0-9]){11,30}", needs="0123456789")
_IP4 = Pattern(r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}", needs=".")
_IP6 = Pattern(r"[23][0-9a-fA-F]{3}:[0-9a-fA-F:]{2,34}", needs=":")
_MAC = Pattern(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}|[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){5}", needs=":-")
_VERSION_WORDS = ("version", "release", "build", "firmware", "driver", "section", "chapter", "oid", "==")
_VERSION_REACH = 14


def private_data(text: str) -> list[Span]:
    """What was found, in order, none overlapping. A few milliseconds per 100 kB of ordinary text."""
    return apart(span for find in FINDERS for span in find(text))


def emails(text: str) -> Iterator[Span]:
    """Mail addresses, plain or spelt "(at) ... dot"; not those of reserved domains (RFC 2606), nor file names."""
    for match in _EMAIL.all(text):
        address = match.group().casefold()
        local, _, domain = address.rpartition("@")
        name, _, ending = domain.rpartition(".")
        reserved = domain in _RESERVED_DOMAINS or domain.endswith(tuple(f".{d}" for d in _RESERVED_DOMAINS))
        login = local == "git" or text[match.end() : match.end() + 2] == ":/"
        numbered = name.rpartition(".")[2].isdigit()
        if ending not in _NOT_MAIL_ENDINGS and not (reserved or login or numbered):
            yield Span("EMAIL", match.start(), match.end(), address)
    for match in _SPELT_EMAIL.all(text):
        address = "".join(c for c in match.group().casefold() if c.isalnum())
        if "dot" in address or "." in match.group():
            yield Span("EMAIL", match.start(), match.end(), address)


def cards(text: str) -> Iterator[Span]:
    """Payment cards: an issuer's prefix and length, the usual grouping or none, and the Luhn check digit."""
    for match in _CARD.all(text):
        shown = match.group()
        digits = "".join(c for c in shown if c.isdigit())
        if touches_word(text, match.start(), match.end(), also=".-"):
            if text[match.end() : match.end() + 1] != ".":
                continue
            if text[match.end() + 1 : match.end() + 2].isdigit():
                continue
        if _issued(digits) and _grouped_like_a_card(shown) and luhn.is_valid(digits):
            yield Span("CARD", match.start(), match.end(), digits)


def _issued(digits: str) -> bool:
    length, two, four = len(digits), int(digits[:2]), int(digits[:4])
    if digits[0] == "4":
        return length in (13, 16, 19)
    if 51 <= two <= 55 or 2221 <= four <= 2720:
        return length == 16
    if two in (34, 37):
        return length == 15
    if two in (36, 38, 39) or 300 <= int(digits[:3]) <= 305:
        return length in (14, 16)
    if 3528 <= four <= 3589:
        return length in (16, 19)
    return four == 6011 or (two in (50, 56, 57, 58, 60, 62, 63, 64, 65, 67) and length in (16, 17, 18, 19))


def _grouped_like_a_card(shown: str) -> bool:
    groups = [len(g) for g in shown.replace("-", " ").split(" ")]
    return len(groups) == 1 or (groups[0] == 4 and max(groups) <= 6 and min(groups[:-1]) >= 4)


def ibans(text: str) -> Iterator[Span]:
    """International bank account numbers, with or without spaces: the country's structure and the mod-97 check."""
    for match in _IBAN.all(text):
        start = match.start()
        if text[start - 1 : start].isalnum():
            continue
        ends = [i for i in range(start + 15, match.end() + 1) if not text[i : i + 1].isalnum()]
        for end in reversed(ends):
            number = text[start:end].replace(" ", "").upper()
            if 15 <= len(number) <= 34 and iban.is_valid(number, check_country=False):
                yield Span("IBAN", start, end, number)
                break


def network_addresses(text: str) -> Iterator[Span]:
    """Public IP addresses and MAC addresses; not private, loopback or documentation ranges, nor version numbers."""
    for match in _IP4.all(text):
        start, end = match.start(), match.end()
        if touches_word(text, start, end, also="-_") or _dotted_on(text, start, end):
            continue
        ahead = before(text, start, _VERSION_REACH)
        if _public(match.group()) and not any(w in ahead for w in _VERSION_WORDS):
            yield Span("IP_ADDRESS", start, end, match.group())
    for match in _IP6.all(text):
        if not touches_word(text, match.start(), match.end(), also=":") and _public(match.group()):
            yield Span("IP_ADDRESS", match.start(), match.end(), match.group().lower())
    for match in _MAC.all(text):
        if not touches_word(text, match.start(), match.end(), also=":-"):
            yield Span("MAC_ADDRESS", match.start(), match.end(), match.group().upper().replace("-", ":"))


def _dotted_on(text: str, start: int, end: int) -> bool:
    return text[start - 1 : start] == "." or (
        text[end : end + 1] == "." and text[end + 1 : end + 2].isdigit()
    )


def _public(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:
        return False


FINDERS: tuple[Callable[[str], Iterator[Span]], ...] = (
    emails,
    cards,
    ibans,
    phones,
    national_ids,
    network_addresses,
    places,
)
"""Every finder. What two of them claim goes to the longer claim, then to the one named first."""
