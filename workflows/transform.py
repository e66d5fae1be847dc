"""What becomes of an answer before it is a variable's value: a closed list of transforms, applied in order.

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
from functools import cache, lru_cache
from typing import Any

from workflows.errors import WorkflowError

Value = str | list[str]
"""What a variable holds: a text, or a list of texts."""

MAX_TRANSFORMS = 16
_MAX_PATTERN_CHARACTERS = 2000
_LINE_END = re.compile(r"\r?\n")


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


def read_transforms(value: object, param: str) -> tuple[Transform, ...]:
    """The transforms of an output. `param` is the field's path, for errors.

    Raises WorkflowError: not a list, an unknown transform, an argument of the wrong type, an error of RE2, a transform of a list
    where there can only be a text.
    """
    raise NotImplementedError


def apply(transforms: Sequence[Transform], text: str) -> Value:
    """What the transforms make of an answer. Raises TransformFailed."""
    raise NotImplementedError


def as_text(value: Value) -> str:
    """A value as it stands in a prompt or an answer: a list's items, a line each."""
    return value if isinstance(value, str) else "\n".join(value)
