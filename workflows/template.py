"""Texts with `{{name}}` in them: which names they hold, and what they say once those have values.

Substitution happens once, from left to right: a value is never scanned. `{{{{` is a literal `{{`; single braces mean
nothing, so `{{{name}}}` is the value between braces. A `{{` that opens neither is an error, not text: a misspelt name must
show. Time and memory are linear in the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workflows.errors import WorkflowError
from workflows.names import NAME

_MARK = re.compile(rf"\{{\{{\{{\{{|\{{\{{({NAME})\}}\}}|\{{\{{(?!\{{{NAME}\}}\}})")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A template's text with its values in place."""

    text: str
    boundaries: tuple[int, ...]
    """Offsets in characters at which a value starts or ends: rising, each once."""


@dataclass(frozen=True, slots=True)
class Template:
    """One text, parsed: `literals[0]`, the value of `slots[0]`, `literals[1]`, … ; one literal more than slots."""

    literals: tuple[str, ...]
    slots: tuple[str, ...]
    """Every placeholder, in order; a name may stand here twice."""

    @classmethod
    def parse(cls, text: str) -> Template:
        """Raises WorkflowError if `{{` opens neither a name nor a literal `{{`."""
        literals, slots, current, at = [], [], [], 0
        for mark in _MARK.finditer(text):
            current.append(text[at : mark.start()])
            at = mark.end()
            if mark[1] is not None:
                literals.append("".join(current))
                slots.append(mark[1])
                current = []
            elif mark[0] == "{{{{":
                current.append("{{")
            else:
                raise WorkflowError(
                    f"`{{{{` at character {mark.start()} is not followed by a name and `}}}}`; "
                    "a literal `{{` is written `{{{{`.",
                    code="invalid_template",
                )
        current.append(text[at:])
        literals.append("".join(current))
        return cls(tuple(literals), tuple(slots))

    @property
    def names(self) -> tuple[str, ...]:
        """The names it holds, each once, in the order of their first appearance."""
        return tuple(dict.fromkeys(self.slots))

    def length(self, values: Mapping[str, str]) -> int:
        """Count the characters that `render` will make of it. Raises KeyError for a name without a value."""
        return sum(map(len, self.literals)) + sum(len(values[name]) for name in self.slots)

    def render(self, values: Mapping[str, str]) -> Rendered:
        """The text with every value in place. Raises KeyError for a name without a value."""
        pieces, at = [self.literals[0]], len(self.literals[0])
        boundaries: list[int] = []
        for name, literal in zip(self.slots, self.literals[1:], strict=True):
            value = values[name]
            boundaries += (at, at + len(value))
            at += len(value) + len(literal)
            pieces += (value, literal)
        return Rendered("".join(pieces), tuple(dict.fromkeys(boundaries)))


@dataclass(frozen=True, slots=True)
class Filled:
    """Messages with every value in place."""

    messages: tuple[Mapping[str, Any], ...]
    boundaries: tuple[tuple[int, int], ...]
    """(message's index, offset in characters in its `engines.chat.message_text`) of each start and end of a value, rising;
    without the starts and ends of messages."""


def names_in(messages: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The names in the messages' texts, each once, in order. Raises WorkflowError naming the message."""
    names: dict[str, None] = {}
    for index, message in enumerate(messages):
        for _, template in _templates(index, message):
            names.update(dict.fromkeys(template.slots))
    return tuple(names)


def fill(
    messages: Sequence[Mapping[str, Any]], values: Mapping[str, str], *, max_characters: int | None = None
) -> Filled:
    """The messages with values put into string contents and `text` parts; nothing else of a message changes.

    Raises KeyError for a name without a value, and WorkflowError (413 `request_too_large`) before anything is built when the
    texts would be longer than `max_characters`: a short template can name a long value many times.
    """
    parsed = [tuple(_templates(index, message)) for index, message in enumerate(messages)]
    if max_characters is not None:
        length = sum(template.length(values) for each in parsed for _, template in each)
        if length > max_characters:
            raise WorkflowError(
                f"With its variables in place the prompt has {length} characters; {max_characters} are allowed.",
                param="messages",
                code="request_too_large",
                status=413,
            )
    filled, boundaries = [], []
    for index, (message, templates) in enumerate(zip(messages, parsed, strict=True)):
        changed, offsets = _filled(message, templates, values)
        filled.append(changed)
        boundaries += [(index, offset) for offset in offsets]
    return Filled(tuple(filled), tuple(boundaries))


def _templates(index: int, message: Mapping[str, Any]) -> Iterator[tuple[int | None, Template]]:
    """(part's index, or None for a string content; its template) of each text of a message."""
    content = message.get("content")
    try:
        if isinstance(content, str):
            yield None, Template.parse(content)
        elif isinstance(content, list):
            for part, each in enumerate(content):
                if (
                    isinstance(each, Mapping)
                    and each.get("type") == "text"
                    and isinstance(each.get("text"), str)
                ):
                    yield part, Template.parse(each["text"])
    except WorkflowError as error:
        raise error.within(f"messages[{index}]") from None


def _filled(
    message: Mapping[str, Any], templates: Sequence[tuple[int | None, Template]], values: Mapping[str, str]
) -> tuple[Mapping[str, Any], list[int]]:
    """One message, and the boundaries within its text."""
    rendered = [template.render(values) for _, template in templates]
    offsets, at = [], 0
    for each in rendered:
        offsets += [at + offset for offset in each.boundaries]
        at += len(each.text) + 1  # Parts are joined by a newline.
    within = [offset for offset in dict.fromkeys(offsets) if 0 < offset < at - 1]
    if not rendered:
        return message, within
    if templates[0][0] is None:
        return {**message, "content": rendered[0].text}, within
    parts = list(message["content"])
    for (index, _), each in zip(templates, rendered, strict=True):
        assert index is not None
        parts[index] = {**parts[index], "text": each.text}
    return {**message, "content": parts}, within
