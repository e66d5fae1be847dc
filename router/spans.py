"""Spans of a text that vary from request to request without changing what is asked of the model: dates, times, ids."""

from __future__ import annotations

import re

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
_WEEKDAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?,?\s+"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
_ISO = rf"\d{{4}}-\d{{2}}-\d{{2}}(?:[T ,]+{_CLOCK}\s?(?:Z\b|[+-]\d{{2}}:?\d{{2}}|UTC\b)?)?"
_SHORT = r"\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d{2})\b"
_DAY_FIRST = rf"\d{{1,2}}(?:st|nd|rd|th|\.)?(?: of)? {_MONTH},? \d{{4}}\b"
_MONTH_FIRST = rf"{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}\b"
_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
VARYING = re.compile(
    # What each begins with comes first: nearly every word of a text is done with after one character.
    rf"\b(?=[MTWFS])(?:{_WEEKDAY})(?:{_ISO}|{_SHORT}|{_DAY_FIRST}|{_MONTH_FIRST})"
    rf"|\b(?=[JFMASOND]){_MONTH_FIRST}"
    rf"|\b(?=\d)(?:{_ISO}|{_SHORT}|{_DAY_FIRST}|{_CLOCK}(?:\s?[AaPp]\.?[Mm]\b)?|\d{{6,}}\b)"
    rf"|\b(?=[0-9a-fA-F]{{8}})(?:{_UUID}|(?=[a-fA-F]*\d)[0-9a-fA-F]{{12,}}\b)"
    r"|(?<![^\W_])(?=[0-9A-Za-z]{20})(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[0-9A-Za-z]+\b"
)
"""Dates, times, UUIDs, hexadecimal and random ids, numbers of six digits and more."""


_DIGIT = re.compile(r"\d")


def masked(text: str) -> str:
    """The text with every such span replaced; the text itself if there is none."""
    # All of them hold a digit, as few lines of a prompt do.
    return "\n".join(VARYING.sub("\0", line) if _DIGIT.search(line) else line for line in text.split("\n"))
