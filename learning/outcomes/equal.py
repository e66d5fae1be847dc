"""Tells without a judge whether an answer says the same as the reference's: labels, numbers, JSON, code, short texts.

Pure functions. What is equal after normalisation is equal whatever it is. What is not equal is plainly worse only where the
reference's answer has a form that leaves no choice of words: `settles` tells. Anything else is for a judge.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

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

_FENCE = re.compile(r"```([\w+#-]*)[^\S\n]*\n(.*?)\n?[^\S\n]*```", re.DOTALL)
_PREFIX = re.compile(
    r"(?:the\s+)?(?:final\s+)?(?:label|intent|category|class|answer|result|output|sentiment|topic|type)"
    r"(?:\s*[:=]|\s+is:?)\s+(?=\S)",
    re.IGNORECASE,
)
_WORDS = re.compile(r"""(?:["'(]*\w[\w'’-]*[)"]*[.,;:!?]*(?:\s+|$))+""")
"""Words and marks between them; no flags, paths, operators or other things in which case may matter."""
_NUMBER = re.compile(
    r"(?P<currency>[$€£¥]?)\s?(?P<sign>[+-]?)(?P<digits>\d{1,3}(?:,\d{3})+|\d{1,40})(?P<decimals>\.\d{1,40})?"
    r"\s?(?P<unit>%|°[CF]?|[^\W\d_]{1,12}(?:/[^\W\d_]{1,12})?)?"
)
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
    """Whether two answers are equal but for their form. Case counts in code, and in what may be code."""
    ours, reference = _tidy(ours), _tidy(reference)
    if ours == reference or max(len(ours), len(reference)) > _LONGEST:
        return ours == reference
    a, b = _json(ours), _json(reference)
    if a is not None or b is not None:
        return bool(a == b)
    number, other = _number(ours), _number(reference)
    if number is not None and other is not None:
        return number == other
    fences = _FENCE.fullmatch(ours), _FENCE.fullmatch(reference)
    if any(fences):
        languages = {fence[1].lower() for fence in fences if fence} - {""}
        first, second = (f[2] if f else text for f, text in zip(fences, (ours, reference), strict=True))
        language = languages.pop() if len(languages) == 1 else ""
        return not languages and _code(first, language) == _code(second, language)
    return _plain(ours) == _plain(reference)


def settles(reference: str, near: Sequence[str] = ()) -> bool:
    """Whether any answer that is not the same as this one of the reference is plainly worse: a number, JSON, a label.

    `near`: answers to similar requests. A short answer is a label if it looks like a name in a program, or if it is one of
    few that these have in common.
    """
    text = _tidy(reference)
    if len(text) > _LONGEST:
        return False
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
    if "_" in label.strip("_") and len(label.split()) == 1:
        return True
    others = [plain for answer in near if len(answer) < 200 and _short(plain := _plain(_tidy(answer)))]
    few = len(others) >= max(_NEAR_AT_LEAST, len(near) / 2) and len(set(others)) <= len(others) / 2
    return few and label in others


def _tidy(text: str) -> str:
    """Without the spaces around lines' ends, blank lines, and a code fence around nothing but one line or JSON."""
    text = unicodedata.normalize("NFC", text)
    text = "\n".join(line.rstrip() for line in text.strip().split("\n") if line.strip())
    fence = _FENCE.fullmatch(text)
    if fence is not None and (fence[1].lower() in ("", "json", "text") and "```" not in fence[2]):
        return fence[2].strip()
    return text


def _short(text: str) -> bool:
    return bool(text) and "\n" not in text and len(text.split()) <= _LABEL_WORDS


def _plain(text: str) -> str:
    """Words without case, marks around them, and what announces them; any other text with its spaces made one."""
    plain = _bare(text)
    return " ".join(plain.casefold().split()) if _WORDS.fullmatch(plain) else _spaced(text)


def _bare(text: str) -> str:
    """Without the announcement, quotes and marks around a short answer; the text itself where nothing would be left."""
    if "\n" in text:
        return text
    bare = _PREFIX.sub("", text, count=1) if _PREFIX.match(text) else text
    bare = bare.strip().strip("*`").rstrip(".,;:!").strip("\"'“”‘’`*").rstrip(".,;:!").strip()
    return bare or text


def _number(text: str) -> tuple[Decimal, str, str] | None:
    """Value, currency and unit of a text that is a number and nothing else."""
    found = _NUMBER.fullmatch(_bare(text))
    if found is None:
        return None
    value = Decimal(found["sign"] + found["digits"].replace(",", "") + (found["decimals"] or ""))
    unit = found["unit"] or ""
    return value, found["currency"], unit if len(unit) <= _SHORT_UNIT else unit.casefold()


def _json(text: str) -> Any:
    """An object or array in a form that compares by value; None for any other text."""
    if text[:1] not in ("{", "[") and (fence := _FENCE.fullmatch(text)) is not None:
        text = fence[2].strip()
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


def _code(text: str, language: str) -> list[str]:
    """Tokens of code, without its comments. A line's indentation is one, where no braces say the same."""
    comment = _COMMENTS.get(language)
    if comment is None:
        return [_spaced(text)]
    tokens = re.compile(f"(?P<comment>{comment})|{_STRINGS}|\\w+|{_OPERATORS}|\\S|\\n[^\\S\\n]*", re.DOTALL)
    found = [m[0] for m in tokens.finditer("\n" + text) if m["comment"] is None]
    if not language.startswith("py"):
        return [token for token in found if token.strip()]
    # A line without a token is none.
    return [t for t, following in zip(found, [*found[1:], ""], strict=True) if t.strip() or following.strip()]


def _spaced(text: str) -> str:
    """With single spaces within lines, strings apart."""
    return re.sub(f"({_STRINGS})|(?<=\\S)[^\\S\\n]+", lambda m: m[1] or " ", text)
