"""Tells without a judge whether an answer says the same as the reference's: labels, numbers, JSON, code, short texts.

Pure functions. What is equal after normalisation is equal whatever it is. What is not equal is plainly worse only where the
reference's answer has a form that leaves no choice of words: `settles` tells. Anything else is for a judge.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from engines.answers.answer import says_calls
from learning.outcomes.wrapping import Meant, meant, only_code

_LONGEST = 8000
"""Characters of a longer text are compared as they are: what takes texts apart may be slow for some of them."""
_LABEL_WORDS = 5
_SHORT_UNIT = 3
"""Letters of a unit above which it is a word of the language."""
_NOT_YET_A_SENTENCE = 2
"""Words with a full stop behind them that may still be a label."""
_LEAF_WORDS = 3
"""Words of a string in JSON above which it counts as free text."""
_NEAR_AT_LEAST = 6

_PREFIX = re.compile(
    r"(?:the\s+)?(?:final\s+)?(?:label|intent|category|class|answer|result|output|sentiment|topic|type)"
    r"(?:\s*[:=]|\s+is:?)\s+(?=\S)",
    re.IGNORECASE,
)
_WORDS = re.compile(r"""(?:["'(]*\w[\w'’-]*[)"]*[.,;:!?]*(?:\s+|$))+""")
"""Words and marks between them; no flags, paths, operators or other things in which case may matter."""
_NUMBER = re.compile(
    r"(?:(?P<first>[+-])(?=[$€£¥]))?(?P<currency>[$€£¥]?)\s?(?P<sign>[+-]?)(?P<digits>\d{1,3}(?:,\d{3})+|\d{1,40})"
    r"(?P<decimals>\.\d{1,40})?(?P<exponent>[eE][+-]?\d{1,2})?"
    r"\s?(?P<unit>[%$€£¥]|°[CF]?|per cent|[^\W\d_]{1,12}(?:/[^\W\d_]{1,12})?)?"
)
_BOXED = re.compile(r"\$?\\boxed\{([^{}]*)\}\$?")
_UNITS = {
    name: unit
    for unit, names in {
        "%": "percent|per cent",
        "€": "EUR|euro|euros",
        "$": "dollar|dollars",
        "mm": "millimeter|millimeters|millimetre|millimetres",
        "cm": "centimeter|centimeters|centimetre|centimetres",
        "m": "meter|meters|metre|metres",
        "km": "kilometer|kilometers|kilometre|kilometres",
        "mi": "mile|miles",
        "mg": "milligram|milligrams",
        "g": "gram|grams",
        "kg": "kilogram|kilograms",
        "ml": "mL|milliliter|milliliters|millilitre|millilitres",
        "l": "L|liter|liters|litre|litres",
        "ms": "millisecond|milliseconds",
        "s": "sec|secs|second|seconds",
        "min": "mins|minute|minutes",
        "h": "hr|hrs|hour|hours",
        "day": "days",
        "week": "weeks",
        "month": "months",
        "year": "years",
    }.items()
    for name in names.split("|")
}
"""Ways to write a unit. What a name alone does not tell (pounds, USD beside $) stays apart."""
_BULLET = re.compile(r"[-*•]\s+(\S.*)")
_NUMBERED = re.compile(r"(\d{1,3})[.)]\s+(\S.*)")
_ITEM_WORDS = 8
_COMMAND = re.compile(
    r"(?!select|insert|update|delete|with|create)[a-z][\w.+-]*\s+[^=\n]*?(?:(?<=\s)-{1,2}[A-Za-z]|\|\s*[a-z])"
)
"""The beginning of a line for a shell: a name, then a flag or a pipe."""
_BETWEEN_WORDS = re.compile(r"(?<=[^\W\d_])[-_]+(?=[^\W\d_])")
_EITHER_QUOTES = re.compile(r'"[^"\'$`\\!]*"')
_C_LIKE = "c c++ cpp cs csharp go java javascript js kotlin php rs rust swift ts typescript"
_COMMENTS = {
    **dict.fromkeys(_C_LIKE.split(), r"//[^\n]*|/\*.*?\*/"),
    **dict.fromkeys(("py", "python", "python3"), r"#[^\n]*"),
    "sql": r"--[^\n]*|/\*.*?\*/",
}
"""Languages whose tokens may stand apart or together, and what is a comment in them. Elsewhere spaces may matter."""
_STRINGS = r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\\n])*\'|`[^`]*`'
_OPERATORS = r"\+\+|--|\*\*|//|<<=?|>>=?|&&|\|\||::|[-+*/%<>=!&|^]=|->|=>"


def same(ours: str, reference: str) -> bool:
    """Tell if two answers mean the same, whatever stands around it. Case counts in code, and in what may be code.

    Prose beside a block of code counts unless the other answer is that code alone and the prose takes nothing back.
    """
    if ours == reference:
        return True
    if says_calls(ours) or says_calls(reference):
        # By value, however long.
        return _json(ours) is not None and _json(ours) == _json(reference)
    if max(len(ours), len(reference)) > _LONGEST:
        return _tidy(ours) == _tidy(reference)
    texts = _tidy(ours), _tidy(reference)
    first, second = (meant(text) for text in texts)
    if _equal(first, second):
        return True
    codes = tuple(only_code(text) for text in texts)
    if all(codes) or not any(codes):
        return False
    return _equal(codes[0] or first, codes[1] or second)


def _equal(ours: Meant, reference: Meant) -> bool:
    """The first kind of answer that both are compares them."""
    languages = {ours.language, reference.language} - {""}
    if len(languages) > 1:
        return False
    language = languages.pop() if languages else ""
    for read in _KINDS:
        a, b = read(ours.text, language), read(reference.text, language)
        if a is not None and b is not None:
            return bool(a == b)
    return False


def settles(reference: str, near: Sequence[str] = ()) -> bool:
    """Tell if any answer that differs from this one of the reference is plainly worse: a call of tools, a number, JSON, a
    label.

    `near`: answers to similar requests. A short answer is a label if it looks like a name in a program, or if it is one of
    few that these have in common.
    """
    if says_calls(reference):
        return True
    if len(reference) > _LONGEST:
        return False
    text = meant(_tidy(reference)).text
    found = _json(text)
    if found is not None:
        return _without_free_text(found)
    number = _number(text)
    if number is not None:
        return len(number[2]) <= _SHORT_UNIT
    label = _plain(text)
    sentence = text.endswith((".", "!", "?")) and len(label.split()) > _NOT_YET_A_SENTENCE
    if sentence or not _short(label):
        return False
    if "_" in _bare(text).strip("_") and len(text.split()) == 1:
        return True
    others = [
        plain for answer in near if len(answer) < 200 and _short(plain := _plain(meant(_tidy(answer)).text))
    ]
    few = len(others) >= max(_NEAR_AT_LEAST, len(near) / 2) and len(set(others)) <= len(others) / 2
    return few and label in others


def _tidy(text: str) -> str:
    """Without the spaces around lines' ends, and blank lines."""
    text = unicodedata.normalize("NFC", text)
    return "\n".join(line.rstrip() for line in text.strip().split("\n") if line.strip())


def _short(text: str) -> bool:
    return bool(text) and "\n" not in text and len(text.split()) <= _LABEL_WORDS


def _plain(text: str, language: str = "") -> str:
    """Words without case, marks around and between them, and what announces them; any other text, spaces made one."""
    plain = _bare(text)
    if not language and _WORDS.fullmatch(plain):
        return " ".join(_BETWEEN_WORDS.sub(" ", plain.casefold()).split())
    return _command(text) if language == "sh" or (not language and _COMMAND.match(text)) else _spaced(text)


def _command(text: str) -> str:
    """A line for a shell with strings in single quotes where both kinds mean the same."""
    found = re.sub(_STRINGS, lambda m: f"'{m[0][1:-1]}'" if _EITHER_QUOTES.fullmatch(m[0]) else m[0], text)
    return _spaced(found)


def _bare(text: str) -> str:
    """Without the announcement, quotes and marks around a short answer; the text itself if nothing would be left."""
    if "\n" in text:
        return text
    bare = _PREFIX.sub("", text, count=1) if _PREFIX.match(text) else text
    bare = bare.strip().strip("*`").rstrip(".,;:!").strip("\"'“”‘’`*").rstrip(".,;:!").strip()
    return bare or text


def _number(text: str, language: str = "") -> tuple[Decimal, str, str] | None:
    """Value, currency and unit of a text that is a number and nothing else."""
    boxed = _BOXED.fullmatch(text)
    found = _NUMBER.fullmatch(_bare((boxed[1] if boxed else text).replace("\u2212", "-")))
    if found is None or (found["first"] and found["sign"]):
        return None
    sign, digits = found["first"] or found["sign"], found["digits"].replace(",", "")
    value = Decimal(sign + digits + (found["decimals"] or "") + (found["exponent"] or ""))
    unit, currency = found["unit"] or "", found["currency"]
    unit = _UNITS.get(unit) or _UNITS.get(unit.casefold(), unit)
    if unit and unit in "$€£¥":
        return None if currency else (value, unit, "")
    return value, currency, unit if len(unit) <= _SHORT_UNIT else unit.casefold()


def _list(text: str, language: str = "") -> list[Any] | None:
    """The items of a list of short texts in their order: bulleted, numbered from 1, one a line, or with commas between."""
    items = [] if language else _items(text)
    return [_number(item) or _plain(item) for item in items] if len(items) > 1 else None


def _items(text: str) -> list[str]:
    """Return the items of a list without their marks; none for what is no list."""
    lines = text.split("\n")
    bullets = [_BULLET.fullmatch(line) for line in lines]
    if all(bullets):
        return [found[1] for found in bullets if found]
    numbers = [_NUMBERED.fullmatch(line) for line in lines]
    if [found and int(found[1]) for found in numbers] == list(range(1, len(lines) + 1)):
        return [found[2] for found in numbers if found]
    items = lines if len(lines) > 1 else text.split(", ")
    return items if all(len(item.split()) <= _ITEM_WORDS and _WORDS.fullmatch(item) for item in items) else []


def _json(text: str, language: str = "") -> Any:
    """An object or array in a form that compares by value; None for any other text."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return _by_value(json.loads(text, parse_float=Decimal, parse_int=Decimal, parse_constant=_refused))
    except (ValueError, ArithmeticError, RecursionError):
        return None


def _refused(constant: str) -> None:
    raise ValueError(constant)


def _by_value(found: Any) -> Any:
    """With the kind beside each value: in Python, true is equal to 1. Text may have been escaped when `_tidy` saw it."""
    if isinstance(found, dict):
        return "object", {
            unicodedata.normalize("NFC", name): _by_value(value) for name, value in found.items()
        }
    if isinstance(found, list):
        return "array", [_by_value(value) for value in found]
    if isinstance(found, str):
        return "str", unicodedata.normalize("NFC", found)
    return type(found).__name__, found


def _without_free_text(found: tuple[str, Any]) -> bool:
    kind, value = found
    if kind == "object":
        return all(map(_without_free_text, value.values()))
    if kind == "array":
        return all(map(_without_free_text, value))
    return kind != "str" or len(value.split()) <= _LEAF_WORDS


def _code(text: str, language: str) -> list[str] | None:
    """Tokens of code, without its comments; None if the language is not known.

    A line's indentation is one, unless braces say the same.
    """
    comment = _COMMENTS.get(language)
    if comment is None:
        return None
    tokens = re.compile(f"(?P<comment>{comment})|{_STRINGS}|\\w+|{_OPERATORS}|\\S|\\n[^\\S\\n]*", re.DOTALL)
    found = [m[0] for m in tokens.finditer("\n" + text) if m["comment"] is None]
    if not language.startswith("py"):
        return [token for token in found if token.strip()]
    # A line without a token is none.
    return [t for t, following in zip(found, [*found[1:], ""], strict=True) if t.strip() or following.strip()]


def _spaced(text: str) -> str:
    """With single spaces within lines, strings apart."""
    return re.sub(f"({_STRINGS})|(?<=\\S)[^\\S\\n]+", lambda m: m[1] or " ", text)


_KINDS: Sequence[Callable[[str, str], Any]] = (_json, _number, _list, _code, _plain)
"""The readers of each kind of answer, given the text and its language: a value that compares, or None."""
