"""Where something was found in a text, and how it is replaced so that the text stays readable.

Knows neither what private data is nor what a secret is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_VALUES = 100
"""More different values than this in one pair is a list of people or keys, not an example: see TooMany."""
_SHORTEST_REPEAT = 6


class TooMany(Exception):
    """A text holds more values than can sensibly be replaced."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something found: `text[start:end]`."""

    kind: str
    """What it is, as the placeholder will say: EMAIL, PHONE, API_KEY."""
    start: int
    end: int
    key: str
    """The value without its formatting: two spans with equal kind and key mean the same thing."""


def apart(spans: Iterable[Span]) -> list[Span]:
    """The spans without overlaps, in order of their place: of two that overlap, the longer stays."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
        elif span.end - span.start > kept[-1].end - kept[-1].start:
            # The loser's remainder must not stay readable.
            kept[-1] = Span(span.kind, kept[-1].start, max(span.end, kept[-1].end), span.key)
        elif span.end > kept[-1].end:
            kept[-1] = Span(kept[-1].kind, kept[-1].start, span.end, kept[-1].key)
    return kept


@dataclass(frozen=True, slots=True)
class Redacted:
    """A pair with placeholders instead of values."""

    question: str
    answer: str
    kinds: tuple[str, ...]
    """What was replaced: one entry per different value, in order of appearance."""
    hollow: bool
    """The answer has a placeholder whose value the question does not: who reads the pair cannot know what belongs there."""


def redacted(question: str, answer: str, in_question: Sequence[Span], in_answer: Sequence[Span]) -> Redacted:
    """Both texts with every span replaced by `[KIND]`, or `[KIND_2]` for the second different value of a kind.

    Equal values get equal placeholders in both texts, also where a value was recognised only once thanks to the words
    around it. Raises TooMany. Linear in the texts for a bounded number of values.
    """
    found = [(question[s.start : s.end], s) for s in in_question] + [
        (answer[s.start : s.end], s) for s in in_answer
    ]
    names: dict[tuple[str, str], str] = {}
    count: dict[str, int] = {}
    for _, span in found:
        if (span.kind, span.key) not in names:
            count[span.kind] = nth = count.get(span.kind, 0) + 1
            names[span.kind, span.key] = f"[{span.kind}]" if nth == 1 else f"[{span.kind}_{nth}]"
    if len(names) > MAX_VALUES:
        raise TooMany
    literals = {value: span for value, span in found if len(value) >= _SHORTEST_REPEAT}
    asked = apart([*in_question, *_repeats(question, literals)])
    said = apart([*in_answer, *_repeats(answer, literals)])
    known = {(s.kind, s.key) for s in asked}
    return Redacted(
        _replaced(question, asked, names),
        _replaced(answer, said, names),
        tuple(kind for kind, _ in names),
        hollow=any((s.kind, s.key) not in known for s in said),
    )


def _repeats(text: str, literals: dict[str, Span]) -> list[Span]:
    repeats = []
    for value, span in literals.items():
        at = text.find(value)
        while at >= 0:
            repeats.append(Span(span.kind, at, at + len(value), span.key))
            at = text.find(value, at + len(value))
    return repeats


def _replaced(text: str, spans: Sequence[Span], names: dict[tuple[str, str], str]) -> str:
    pieces, at = [], 0
    for span in spans:
        pieces += [text[at : span.start], names[span.kind, span.key]]
        at = span.end
    return "".join([*pieces, text[at:]])
