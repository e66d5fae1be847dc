"""Finds numbers that the state, a bank or a doctor gave to one person: social security, tax, passport, licence, account.

Where a number carries check digits, python-stdnum checks them; where its form alone says too little, a word nearby must
say what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stdnum import verhoeff
from stdnum.au import tfn
from stdnum.br import cpf
from stdnum.ca import sin
from stdnum.ch import ssn as ahv
from stdnum.cn import ric
from stdnum.de import idnr
from stdnum.es import dni, nie
from stdnum.fi import hetu
from stdnum.fr import nir
from stdnum.gb import nhs
from stdnum.in_ import pan
from stdnum.it import codicefiscale
from stdnum.kr import rrn
from stdnum.mx import curp
from stdnum.nl import bsn
from stdnum.pl import pesel
from stdnum.se import personnummer
from stdnum.us import itin, rtn, ssn

from store.admission.patterns import Pattern, before, touches_word
from store.admission.spans import Span

_REACH = 48
_FEWEST_DIGITS = 4


@dataclass(frozen=True, slots=True)
class _Number:
    pattern: Pattern
    valid: Callable[[str], bool]
    words: tuple[str, ...] = ()
    """One of these must stand shortly before; none: the form and the check digits say enough."""
    kind: str = "NATIONAL_ID"


def _aadhaar(number: str) -> bool:
    digits = number.replace(" ", "")
    return digits[0] not in "01" and verhoeff.is_valid(digits)


def _any(number: str) -> bool:
    return sum(c.isdigit() for c in number) >= 5


def _us(number: str) -> bool:
    return ssn.is_valid(number.replace(" ", "-")) or itin.is_valid(number.replace(" ", "-"))


_SSN_WORDS = ("ssn", "social security", "social-security", "social sec", "itin", "taxpayer")
_TAX_WORDS = ("tax", "steuer", "tfn", "idnr", "tin")
_ID_WORDS = (
    *(
        "passport",
        "reisepass",
        "passeport",
        "pasaporte",
        "passaporto",
        "driver",
        "driving",
        "licence n",
        "license n",
    ),
    *(
        "licence:",
        "license:",
        "license is",
        "licence is",
        "dl#",
        "dl #",
        "dl no",
        "dl:",
        "führerschein",
        "permis de",
    ),
    *(
        "personalausweis",
        "identity card",
        "id card",
        "national id",
        "id number",
        "id no",
        "ausweisnummer",
        "dvla",
    ),
)
_ACCOUNT_WORDS = (
    "account number",
    "account no",
    "acct",
    "account:",
    "account #",
    "bank account",
    "kontonummer",
)
_D = "0123456789"
_NUMBERS = (
    _Number(Pattern(r"\d{3}-\d{2}-\d{4}", needs="-"), _us),
    _Number(Pattern(r"\d{3} \d{2} \d{4}|\d{9}", needs=_D), _us, _SSN_WORDS),
    _Number(Pattern(r"\d{3}\.\d{3}\.\d{3}-\d{2}", needs="-"), cpf.is_valid),
    _Number(Pattern(r"\d{11}", needs=_D), cpf.is_valid, ("cpf",)),
    _Number(Pattern(r"756\.\d{4}\.\d{4}\.\d{2}", needs="."), ahv.is_valid),
    _Number(
        Pattern(r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", needs=_D, any_case=True),
        codicefiscale.is_valid,
    ),
    _Number(Pattern(r"\d{8}-?[A-Z]", needs=_D, any_case=True), dni.is_valid),
    _Number(Pattern(r"[XYZ]-?\d{7}-?[A-Z]", needs=_D, any_case=True), nie.is_valid),
    _Number(Pattern(r"[12] ?\d{2} ?\d{2} ?\d[\dAB] ?\d{3} ?\d{3} ?\d{2}", needs=_D), nir.is_valid),
    _Number(Pattern(r"\d{6}[-+A]\d{3}[0-9A-Z]", needs=_D), hetu.is_valid),
    _Number(Pattern(r"(?:\d{2})?\d{6}[-+]\d{4}", needs="-+"), personnummer.is_valid),
    _Number(Pattern(r"\d{6}-\d{7}", needs="-"), rrn.is_valid),
    _Number(Pattern(r"[A-Z]{4}\d{6}[HM][A-Z]{5}[A-Z0-9]\d", needs=_D), curp.is_valid),
    _Number(Pattern(r"[A-Z]{3}[PCHABGJLFT][A-Z]\d{4}[A-Z]", needs=_D), pan.is_valid),
    _Number(Pattern(r"\d{17}[\dX]", needs=_D), ric.is_valid),
    _Number(Pattern(r"[2-9]\d{3} \d{4} \d{4}", needs=" "), _aadhaar),
    _Number(Pattern(r"[2-9]\d{11}", needs=_D), _aadhaar, ("aadhaar", "uidai", "aadhar")),
    _Number(
        Pattern(r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]", needs=_D), lambda n: True
    ),
    _Number(Pattern(r"\d{3}[ -]?\d{3}[ -]?\d{3}", needs=_D), sin.is_valid, ("sin", "social insurance")),
    _Number(Pattern(r"\d{3} ?\d{3} ?\d{3}", needs=_D), tfn.is_valid, _TAX_WORDS),
    _Number(Pattern(r"\d{2} ?\d{3} ?\d{3} ?\d{3}", needs=_D), idnr.is_valid, _TAX_WORDS),
    _Number(Pattern(r"\d{9}", needs=_D), bsn.is_valid, ("bsn", "burgerservice")),
    _Number(Pattern(r"\d{11}", needs=_D), pesel.is_valid, ("pesel",)),
    _Number(Pattern(r"\d{3} ?\d{3} ?\d{4}", needs=_D), nhs.is_valid, ("nhs",)),
    _Number(Pattern(r"\d{9}", needs=_D), rtn.is_valid, ("routing", "aba"), "BANK_ACCOUNT"),
    _Number(Pattern(r"\d{2}-\d{2}-\d{2}", needs="-"), _any, ("sort code", "sortcode"), "BANK_ACCOUNT"),
    _Number(Pattern(r"\d[\d -]{4,18}\d", needs=_D), _any, _ACCOUNT_WORDS, "BANK_ACCOUNT"),
    _Number(
        Pattern(
            r"\b(?:[A-Za-z]{1,5}|[A-Z]{1,5}[ -])?\d[A-Za-z0-9]*(?:[ -][A-Za-z0-9]*\d[A-Za-z0-9]*){0,4}",
            needs=_D,
        ),
        lambda n: 6 <= sum(c.isalnum() for c in n) <= 20 and _any(n) and not _like_a_date(n),
        _ID_WORDS,
        "ID_DOCUMENT",
    ),
)


def _like_a_date(number: str) -> bool:
    groups = number.replace("-", " ").split()
    return len(groups) == 3 and all(g.isdigit() for g in groups) and sorted(map(len, groups)) == [2, 2, 4]


def national_ids(text: str) -> Iterator[Span]:
    """Numbers of persons, of their papers and of their bank accounts."""
    if sum(map(text.count, _D)) < _FEWEST_DIGITS:
        return
    lowered = text.lower()
    for number in _NUMBERS:
        if number.words and not any(word in lowered for word in number.words):
            continue
        for match in number.pattern.all(text):
            start, end = match.start(), match.end()
            if touches_word(text, start, end, also="-/_") or _decimal(text, start, end):
                continue
            if number.words and not _said(before(text, start, _REACH), number.words):
                continue
            if number.valid(match.group()):
                key = "".join(c for c in match.group().upper() if c.isalnum())
                yield Span(number.kind, start, end, key)


def _decimal(text: str, start: int, end: int) -> bool:
    return (text[start - 1 : start] == "." and text[start - 2 : start - 1].isdigit()) or (
        text[end : end + 1] == "." and text[end + 1 : end + 2].isdigit()
    )


def _said(ahead: str, words: tuple[str, ...]) -> bool:
    # Only the same line and sentence: a word further up speaks of something else.
    near = ahead.rpartition("\n")[2]
    for word in words:
        at = near.rfind(word)
        if at < 0 or (at > 0 and near[at - 1].isalpha()):
            continue
        return True
    return False
