"""Text that a person does not see and a model reads: invisible characters, letters in disguise, words inside base64.

Says whether a text hides something (`hides`), and shows what a model might read there (`readings`). Marks that scripts and
emoji need, such as joiners in Persian or between the parts of a family emoji, are not hiding.
"""

from __future__ import annotations

import base64
import binascii
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote_plus

from store.admission.patterns import Pattern

_DIRECTION = Pattern(r"[\x{202D}\x{202E}]")
_TAGS = Pattern(r"(?:\x{1F3F4})?[\x{E0000}-\x{E007F}]+")
_FLAG = "\U0001f3f4"
_LONGEST_FLAG = 8
_SELECTORS = Pattern(r"[\x{FE00}-\x{FE0F}\x{E0100}-\x{E01EF}]{2,}")
_ZERO_WIDTH = Pattern(r"[\x{200B}-\x{200D}\x{2060}-\x{2064}\x{FEFF}\x{AD}\x{180E}]+")
_IN_A_WORD = Pattern(r"[A-Za-z0-9][\x{200B}-\x{200D}\x{2060}-\x{2064}\x{FEFF}\x{180E}]+[A-Za-z0-9]")
_LONGEST_RUN = 3
_DROP = dict.fromkeys([0x200B, 0x200C, 0x200D, *range(0x2060, 0x2065), 0xFEFF, 0xAD, 0x180E]) | {0x2800: " "}
_BASE64 = Pattern(r"[A-Za-z0-9+/]{24,}={0,2}")
_MARKS = Pattern(r"[\x{300}-\x{36F}]+")
_ENCODED = Pattern(r"%[0-9A-Fa-f]{2}|\w\+\w+\+\w", needs="%+")
_SPACED = Pattern(r"(?:\b[A-Za-z][ .\-_*]){2,}[A-Za-z]\b")
_LONG_ENOUGH = 6
_LOOKALIKES = str.maketrans("асеорхуіјѕԁոοαικτρεν", "aceopxyijsdnoaiktpev")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ROTATED = str.maketrans(_LETTERS, _LETTERS[13:] + _LETTERS[:13])
_LEET = str.maketrans("013457@$", "oieastas")
_DIGIT_FOR_LETTER = Pattern(r"[a-z][013457@$]+[a-z]")
_SAID_IN_BASE64 = 0.95


def hides(text: str) -> bool:
    """Whether the text has characters that nobody sees and nothing needs. Linear in the text."""
    if text.isascii():
        return False
    if _DIRECTION.within(text) or _SELECTORS.within(text) or _IN_A_WORD.within(text):
        return True
    if any(m.end() - m.start() > _LONGEST_RUN for m in _ZERO_WIDTH.all(text)):
        return True
    return any(
        not m.group().startswith(_FLAG) or m.end() - m.start() > _LONGEST_FLAG for m in _TAGS.all(text)
    )


def readings(text: str) -> Iterator[str]:
    """The text as a model might read it: plain, then whatever is written in it by way of disguise.

    A handful of readings, each at most a small multiple of the text in length.
    """
    plain = unicodedata.normalize("NFKC", text).translate(_DROP)
    yield plain
    if not plain.isascii():
        bare = _MARKS.without(unicodedata.normalize("NFKD", plain.casefold())).translate(_LOOKALIKES)
        if bare != plain.casefold():
            yield bare
    if _ENCODED.within(plain):
        yield unquote_plus(plain)
    closed_up = _closed_up(plain)
    if closed_up:
        yield closed_up
    for match in _BASE64.all(plain):
        said = _from_base64(match.group())
        if said:
            yield said


def ciphers(text: str) -> Iterator[str]:
    """The text read backwards, rotated by 13 letters, and with digits for letters: toys, but models can read them."""
    plain = text.casefold()
    yield plain[::-1]
    yield plain.translate(_ROTATED)
    if _DIGIT_FOR_LETTER.within(plain):
        yield plain.translate(_LEET)


def _closed_up(text: str) -> str:
    """What is left of "i g n o r e" when its letters stand together; nothing where letters do not stand apart."""
    runs = ["".join(c for c in m.group() if c.isalpha()) for m in _SPACED.all(text)]
    return " ".join(runs) if any(len(run) >= _LONG_ENOUGH for run in runs) else ""


def _from_base64(run: str) -> str:
    """The words inside, or nothing where the bytes are not text."""
    try:
        data = base64.b64decode(run.rstrip("=")[: len(run.rstrip("=")) // 4 * 4], validate=True)
    except (binascii.Error, ValueError):
        return ""
    text = data.decode("utf-8", "replace")
    readable = sum(c.isascii() and (c.isprintable() or c.isspace()) for c in text)
    return text if text and readable / len(text) >= _SAID_IN_BASE64 and " " in text else ""
