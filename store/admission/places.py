"""Finds where and when a person lives and was born: street addresses, dates of birth.

A street address needs a house number and a word for "street"; a date of birth needs words that say so, since every other
date in a text is harmless.
"""

from __future__ import annotations

from collections.abc import Iterator

from store.admission.patterns import Pattern, touches_word
from store.admission.spans import Span

_STREETS = (
    "Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Place|Pl|Square|Sq|Terrace|Ter|Way|Parkway|"
    "Pkwy|Circle|Cir|Highway|Hwy|Trail|Close|Crescent|Gardens|Grove|Mews|Row|Loop|Alley|Plaza"
)
_NAME = r"(?:[A-Z][\pL'’-]*|\d{1,3}(?:st|nd|rd|th)|[NSEW]\.?|St\.)"
_UNIT = r"(?:,? *(?:Apt|Apartment|Suite|Ste|Unit|Flat|Floor|Fl|Room|Rm|#)\.? *#?[A-Za-z0-9-]+)?"
_POSTCODE = r"(?:[A-Z]{2},? +\d{5}(?:-\d{4})?|[A-Z]{1,2}\d[A-Z0-9]? ?\d[A-Z]{2}|[A-Z]\d[A-Z] ?\d[A-Z]\d)"
_CITY = r"(?:,? +[A-Z]\p{Ll}[\pL.'’-]*(?: [A-Z]\p{Ll}[\pL.'’-]*){0,2})?(?:,? +" + _POSTCODE + ")?"
_TOWN = r"(?:,? +(?:[A-Z]{1,2}-)?\d{4,5}(?: [A-Z]{2})?(?: [A-Z]\p{Ll}[\pL.'’-]*){1,3})?"
_ENGLISH = Pattern(
    r"(?:(?:Flat|Apt\.?|Apartment|Unit|Suite) [A-Za-z0-9]{1,5},? )?\d{1,6}[A-Za-z]?(?:-\d{1,4})? +(?:"
    + _NAME
    + r" +){1,4}(?:"
    + _STREETS
    + r")\b\.?"
    + _UNIT
    + _CITY,
    needs="0123456789",
)
_GERMANIC = Pattern(
    r"(?:[A-ZÄÖÜ][\pL.-]* )?[A-ZÄÖÜ]\pL*(?:-[A-ZÄÖÜ]\pL*)*[ -]?"
    r"(?:[Ss]traße|[Ss]trasse|[Ss]tr\.|weg|platz|allee|gasse|ufer|damm|straat|laan|plein|gracht|gatan"
    r"|vägen|vej|gade)"
    r" +\d{1,4}(?: ?[a-zA-Z]\b|\b)" + _TOWN,
    needs="0123456789",
)
_ROMANCE = Pattern(
    r"\d{1,4}(?: ?(?:bis|ter))?,? +(?:[Rr]ue|[Aa]venue|[Bb]oulevard|[Pp]lace|[Cc]hemin|[Ii]mpasse"
    r"|[Aa]llée|[Qq]uai|[Cc]ours)"
    r" +(?:(?:de|du|des|la|le|les|l'|d')[ ]?){0,3}[A-Z][\pL'’-]*(?: [A-Z][\pL'’-]*){0,3}" + _TOWN,
    needs="0123456789",
)
_SOUTHERN = Pattern(
    r"\b(?:Calle|C/|Avenida|Avda\.?|Paseo|Plaza|Camino|Via|Viale|Corso|Piazza|Largo|Vicolo|Rua|Travessa|ul\.)"
    r" +(?:(?:de|del|di|della|dei|la|las|los|da|do|dos) ){0,2}[A-Z][\pL'’.-]*(?: [A-Z][\pL'’.-]*){0,3},?"
    r" +(?:n[.º°]? ?)?\d{1,4}[A-Za-z]?\b" + _TOWN,
    needs="0123456789",
)
_POST_BOX = Pattern(
    r"\b(?:P\.? ?O\.? ?Box|Postfach|Apartado(?: postal)?) +\d{1,7}\b" + _CITY,
    needs="0123456789",
    any_case=True,
)

_DATE = (
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/. ] ?\d{1,2}[-/. ] ?\d{2,4}"
    r"|\d{1,2}(?:st|nd|rd|th)?\.? (?:of )?\pL{3,10}\.?,? (?:of )?\d{4}|\pL{3,10}\.? \d{1,2}(?:st|nd|rd"
    r"|th)?,? \d{4})"
)
_BORN = Pattern(
    r"(?:\bd\.?o\.?b\.?|\bdate of birth|\bbirth ?date|\bgeburtsdatum|\bgeb\.|\bfecha de nacimiento|"
    r"\bdate de naissance|\bn[ée]e? le|\bdata di nascita|\bnato il|\bnata il|\bdata de nascimento"
    r"|\bgeboren am|"
    r"\bi was born(?: on| in [a-z ]{0,30} on)?|\bi'm born on|\b(?:my|her|his|patient's|client's"
    r"|customer's|wife's|husband's|son's|daughter's|child's) birthday)"
    r"(?:\s|:|=|\"|'|\*|\(|\)|-|is|was|on|the|dd/mm/yyyy|mm/dd/yyyy|yyyy-mm-dd|\|){0,12}(" + _DATE + r")",
    any_case=True,
)
_IDIOM = Pattern(
    # A year and a name: "the 2016 Supreme Court".
    r"^(?:19|20)\d\d (?:[A-Z]\pL+ )*(?:Court|Place|Square|Way|Row|Circle|Loop|Trail|Close|Plaza)\b[^,]*$"
    r"|\b(?:Supreme|District|High|Federal|Circuit|County|Crown|Appeals|Food|Tennis) Court\b"
    r"|\b(?:First|Second|Third|Last) Place\b|^(?:Platz|Arbeitsplatz|Sitzplatz) "
)
_OLDEST_YEAR = 1905


def places(text: str) -> Iterator[Span]:
    """Street addresses and dates of birth."""
    for pattern in (_ENGLISH, _GERMANIC, _ROMANCE, _SOUTHERN, _POST_BOX):
        for match in pattern.all(text):
            if not touches_word(text, match.start(), match.end(), also="-/$") and not _IDIOM.within(
                match.group()
            ):
                shown = " ".join(match.group().split())
                yield Span("ADDRESS", match.start(), match.end(), shown.casefold())
    for match in _BORN.all(text):
        date = match.group(1)
        if not _of_history(date):
            yield Span("DATE_OF_BIRTH", match.start(1), match.end(1), date.casefold())


def _of_history(date: str) -> bool:
    """Nobody born in that year is still alive."""
    years = [int(n) for n in "".join(c if c.isdigit() else " " for c in date).split() if len(n) == 4]
    return bool(years) and years[0] < _OLDEST_YEAR
