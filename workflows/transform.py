"""Turns an answer into a variable's value: a closed list of transforms, applied in order.

| transform            | of a text                                                    |
|----------------------|--------------------------------------------------------------|
| `"strip"`            | without white space around it                                |
| `{"regex": RE2}`     | group 1 of the first match, or the whole match               |
| `{"json": pointer}`  | what an RFC 6901 pointer names; an array becomes a list      |
| `"lines"`            | a list of its lines, without blank ones                      |
| `{"split": text}`    | a list of what stands between occurrences of `text`          |
| `{"join": text}`     | of a list: its items with `text` between them                |
| `{"truncate": n}`    | its first n characters                                       |

On a list, `strip`, `regex`, `json` and `truncate` apply to each item. A transform that finds nothing fails the variable; it
never yields an empty text. Regular expressions are RE2's: linear time, no backreferences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from workflows.errors import WorkflowError

Value = str | list[str]
"""The content of a variable: a text, or a list of texts."""

MAX_TRANSFORMS = 16
_MAX_PATTERN_CHARACTERS = 2000
_MAX_PROGRAM_INSTRUCTIONS = 1000
"""RE2 is linear in the text, times its program's size where its automaton outgrows its memory."""
_MAX_AUTOMATON_BYTES = 2 * 2**20
_KEPT_PATTERNS = 64
_INSTRUCTIONS_PER_CHARACTER = 8
"""At worst, of what reading one character costs elsewhere: 1 MiB at 1,000 instructions takes a second or two."""
_LINE_END = re.compile(r"\r?\n")
_OF_LISTS = ("join",)
_TO_LISTS = ("lines", "split")


@dataclass(frozen=True, slots=True)
class Transform:
    """One step of the way from an answer to a value."""

    kind: str
    argument: str | int | None = None


class TransformFailed(Exception):
    """An answer does not have what a transform looks for. Its text names the transform, never the answer."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


Held = Literal["text", "list", "either"]
"""The kind of value before or after a transform, as far as it is known without the answer."""


def read_transforms(value: object, param: str, held: Held = "text") -> tuple[Transform, ...]:
    """The transforms of an output, of what is `held` before the first. `param` is the field's path, for errors.

    Raises WorkflowError: not a list, an unknown transform, an argument of the wrong type, an error of RE2, a transform of a
    list where there can only be a text.
    """
    if not isinstance(value, list):
        raise WorkflowError(f"`{param}` must be a list of transforms.", param=param)
    if len(value) > MAX_TRANSFORMS:
        raise WorkflowError(
            f"`{param}` has {len(value)} transforms; {MAX_TRANSFORMS} are allowed.", param=param
        )
    transforms = []
    for index, each in enumerate(value):
        place = f"{param}[{index}]"
        transform = _read(each, place)
        held = _held_after(transform.kind, held, place)
        transforms.append(transform)
    return tuple(transforms)


def held_by(transforms: Sequence[Transform], held: Held) -> Held:
    """Return what there is after transforms that were read."""
    for transform in transforms:
        held = _held_after(transform.kind, held, "")
    return held


def apply(transforms: Sequence[Transform], value: Value) -> Value:
    """Apply the transforms to an answer, or to another value. Raises TransformFailed."""
    for index, transform in enumerate(transforms):
        try:
            value = _applied(transform, value)
        except TransformFailed as failure:
            raise TransformFailed(f"transform[{index}] ({transform.kind}): {failure.message}") from None
    return value


def effort(transforms: Sequence[Transform], text: str) -> int:
    """Return the cost of applying the transforms at worst, in characters read."""
    patterns = (str(each.argument) for each in transforms if each.kind == "regex")
    instructions: int = sum(_compiled(pattern).programsize for pattern in patterns)
    return len(text) * (len(transforms) + 1 + instructions // _INSTRUCTIONS_PER_CHARACTER)


def as_text(value: Value) -> str:
    """A value as it stands in a prompt or an answer: a list's items, a line each."""
    return value if isinstance(value, str) else "\n".join(value)


def size_bytes(value: Value) -> int:
    """Bytes of a value in UTF-8."""
    return sum(len(item.encode()) for item in ([value] if isinstance(value, str) else value))


def bounded(value: Value, max_bytes: int) -> Value:
    """The value itself. Raises TransformFailed when it is longer than a variable's may be."""
    size = size_bytes(value)
    if size > max_bytes:
        raise TransformFailed(f"The value has {size} bytes; {max_bytes} are allowed.")
    return value


# ---- reading


def _read(each: object, place: str) -> Transform:
    """`"strip"`, or an object of one key."""
    if isinstance(each, str):
        each = {each: True}
    if not isinstance(each, dict) or len(each) != 1:
        raise WorkflowError(f"`{place}` must be a transform's name or an object with one key.", param=place)
    ((kind, argument),) = each.items()
    read = _READERS.get(kind)
    if read is None:
        raise WorkflowError(
            f"`{place}`: there is no transform {str(kind)[:64]!r}; there are {', '.join(_READERS)}.",
            param=place,
            code="unknown_transform",
        )
    try:
        return Transform(kind, read(argument))
    except ValueError as error:
        raise WorkflowError(f"`{place}.{kind}` {error}", param=f"{place}.{kind}", code=_code(error)) from None


def _held_after(kind: str, held: Held, place: str) -> Held:
    """Return what there is after a transform: a text, a list, or (after `json`) either."""
    if (kind in _OF_LISTS and held == "text") or (kind in _TO_LISTS and held == "list"):
        needed = "a list" if kind in _OF_LISTS else "a text"
        raise WorkflowError(f"`{place}`: {kind} needs {needed}, and there is a {held}.", param=place)
    if kind in _TO_LISTS:
        return "list"
    if kind in _OF_LISTS:
        return "text"
    return "either" if kind == "json" and held == "text" else held


class _BadPattern(ValueError):
    """RE2 does not take an expression."""


def _code(error: ValueError) -> str:
    return "invalid_regex" if isinstance(error, _BadPattern) else "invalid_workflow"


def _nothing(argument: object) -> None:
    if argument is not True:
        raise ValueError("takes no argument: write its name alone.")


def _pattern(argument: object) -> str:
    if not isinstance(argument, str):
        raise ValueError("must be a regular expression as a text.")
    if len(argument) > _MAX_PATTERN_CHARACTERS:
        raise _BadPattern(
            f"has {len(argument)} characters; a regular expression may have {_MAX_PATTERN_CHARACTERS}."
        )
    _compiled(argument)
    return argument


def _pointer(argument: object) -> str:
    if not isinstance(argument, str) or not re.fullmatch(r"(/([^~/]|~[01])*)*", argument):
        raise ValueError('must be a JSON pointer (RFC 6901): "" or "/a/0".')
    return argument


def _separator(argument: object) -> str:
    if not isinstance(argument, str) or not argument:
        raise ValueError("must be a text that is not empty.")
    return argument


def _text(argument: object) -> str:
    if not isinstance(argument, str):
        raise ValueError("must be a text.")
    return argument


def _characters(argument: object) -> int:
    if not isinstance(argument, int) or isinstance(argument, bool) or argument < 1:
        raise ValueError("must be a number of characters, 1 or more.")
    return argument


_READERS: dict[str, Callable[[object], str | int | None]] = {
    "strip": _nothing,
    "regex": _pattern,
    "json": _pointer,
    "lines": _nothing,
    "split": _separator,
    "join": _text,
    "truncate": _characters,
}


# ---- applying


def _applied(transform: Transform, value: Value) -> Value:
    if transform.kind == "join":
        if isinstance(value, str):
            raise TransformFailed("there is a text, not a list.")
        return str(transform.argument).join(value)
    if isinstance(value, str):
        return _of_text(transform, value)
    if transform.kind in _TO_LISTS:
        raise TransformFailed("there is a list, not a text.")
    # A list within a list is JSON again: values are flat.
    return [_flat(_of_text(transform, item)) for item in value]


def _flat(value: Value) -> str:
    return value if isinstance(value, str) else _json_text(value)


def _of_text(transform: Transform, text: str) -> Value:
    match transform.kind, transform.argument:
        case "strip", _:
            return text.strip()
        case "regex", str(pattern):
            return _matched(pattern, text)
        case "json", str(pointer):
            return _pointed(pointer, text)
        case "lines", _:
            lines = [line for line in _LINE_END.split(text) if line.strip()]
            if not lines:
                raise TransformFailed("the answer has no line.")
            return lines
        case "split", str(separator):
            return text.split(separator)
        case "truncate", int(characters):
            return text[:characters]
    raise AssertionError(transform)


def _matched(pattern: str, text: str) -> str:
    compiled = _compiled(pattern)
    found = compiled.search(text)
    matched = None if found is None else found.group(1 if compiled.groups else 0)
    if matched is None:
        raise TransformFailed("the expression does not match.")
    return str(matched)


def found_in(pattern: str, text: str) -> list[str]:
    """Return each match of an expression that was read: its group 1, else the whole; without empty ones."""
    compiled = _compiled(pattern)
    group = 1 if compiled.groups else 0
    return [str(found[group]) for found in compiled.finditer(text) if found[group]]


def matches(pattern: str, text: str) -> bool:
    """Tell if an expression that was read matches anywhere."""
    return _compiled(pattern).search(text) is not None


@lru_cache(maxsize=_KEPT_PATTERNS)
def _compiled(pattern: str) -> Any:
    """RE2's program of an expression. Imported on first use: most gateways never need it."""
    import re2  # type: ignore[import-untyped, unused-ignore]

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_AUTOMATON_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise _BadPattern(f"is no regular expression of RE2's: {words}.") from None
    if compiled.programsize > _MAX_PROGRAM_INSTRUCTIONS:
        raise _BadPattern(
            f"compiles to {compiled.programsize} instructions; {_MAX_PROGRAM_INSTRUCTIONS} are allowed. "
            "Counted repetitions cost the most."
        )
    return compiled


def _pointed(pointer: str, text: str) -> Value:
    """Return what an RFC 6901 pointer names: a string's text, an array as a list, anything else as JSON."""
    try:
        found = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        raise TransformFailed("the answer is not JSON.") from None
    for token in pointer.split("/")[1:]:
        found = _member(found, token.replace("~1", "/").replace("~0", "~"))
    if isinstance(found, list):
        return [_item(each) for each in found]
    return _item(found)


def _member(found: Any, token: str) -> Any:
    if isinstance(found, dict) and token in found:
        return found[token]
    # ASCII digits without a leading zero; nine are more than any answer has items.
    if isinstance(found, list) and re.fullmatch(r"0|[1-9][0-9]{0,8}", token) and int(token) < len(found):
        return found[int(token)]
    raise TransformFailed("the pointer names nothing in the answer.")


def _item(value: Any) -> str:
    text = value if isinstance(value, str) else _json_text(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TransformFailed("the JSON holds half a surrogate pair, which is no text.") from None
    return text


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _refused(constant: str) -> None:
    raise ValueError(constant)
