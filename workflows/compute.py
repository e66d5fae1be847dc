"""Computes steps that need no engine: cutting texts, tests, joining lists, gathering pieces. Pure: the same at any time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from workflows.graph import Step
from workflows.names import VariableId
from workflows.template import Template
from workflows.transform import TransformFailed, Value, apply, as_text, bounded, matches
from workflows.values import Held, Opaque, Vectors

Offsets = Callable[[str], list[tuple[int, int]]]
"""Returns the beginning and the end of each token of a text, in characters."""
COMPUTED = ("split", "when", "first_of", "merge", "transform", "gather")
"""Primitives that `computed` carries out."""
_RANKS_AHEAD = 60
"""The constant of reciprocal rank fusion: Cormack, Clarke and Büttcher, SIGIR 2009."""


def computed(
    step: Step, held: Mapping[str, Held], offsets: Offsets, max_value_bytes: int
) -> Mapping[VariableId, Held | TransformFailed]:
    """Compute a step of COMPUTED from its inputs (Progress.held): the `outcome` of Progress.answered.

    `offsets` is asked for `split` alone. A gather with `how: index` gives back the index of its pieces; where it has none
    (an empty list), who carries it out makes an empty index: `needs_index`. May take long for many long texts: off the loop.
    """
    try:
        made = _COMPUTED[step.primitive](step, held, offsets)
    except TransformFailed as failure:
        return dict.fromkeys(step.writes.values(), failure)
    outcome: dict[VariableId, Held | TransformFailed] = {}
    for output in step.outputs:
        try:
            outcome[step.writes[output.name]] = _bounded(made, output.transforms, max_value_bytes)
        except TransformFailed as failure:
            outcome[step.writes[output.name]] = failure
    return outcome


def needs_index(step: Step) -> bool:
    """Tell if it gathers an index without pieces: make an empty one instead of asking `computed`."""
    return step.what.get("how") == "index" and not _names(step, ".ingest[")


def texts(step: Step, held: Mapping[str, Held]) -> list[str]:
    """The texts that an `embed`, `rerank` or `search` (in a component) works on, in order."""
    found = [text for name in step.what["texts"] for text in _listed(held[name])]
    cut = step.what.get("slice")
    return found if cut is None else found[cut[0] : cut[1]]


def vectors(step: Step, held: Mapping[str, Held]) -> Vectors:
    """Return the vectors that an `ingest` takes in, or that a `search` in an index looks for."""
    opaque = held[step.what["vectors"]]
    assert isinstance(opaque, Opaque)
    found = opaque.held
    assert isinstance(found, Vectors)
    return found


def arguments(step: Step, held: Mapping[str, Held]) -> Mapping[str, Any]:
    """A tool's arguments with values in place: a text that is one reference to a list and nothing else becomes the list."""
    args: Mapping[str, Any] = _filled(step.what["args"], held)
    return args


def scores(found: Iterable[float]) -> Value:
    """Scores as the value of a `rerank` step: exact. Raises TransformFailed for one that is no number."""
    numbers = [float(each) for each in found]
    if not all(map(math.isfinite, numbers)):
        raise TransformFailed("a score is no finite number.")
    return [repr(each) for each in numbers]


def cut(text: str, offsets: Sequence[tuple[int, int]], tokens: int, overlap: int) -> list[str]:
    """A text in pieces of `tokens` tokens, each beginning with the last `overlap` of the one before."""
    last = max(len(offsets) - overlap, 1)
    ends = [min(start + tokens, len(offsets)) - 1 for start in range(0, last, tokens - overlap)]
    starts = range(0, last, tokens - overlap)
    if not offsets:
        return []
    return [text[offsets[start][0] : offsets[end][1]] for start, end in zip(starts, ends, strict=True)]


def fused(lists: Sequence[Sequence[str]], k: int) -> list[str]:
    """Reciprocal rank fusion: each text once, by the sum of 1 / (60 + its rank) over the lists that have it, the first of
    equal ones first; the best k, or all where k is 0."""
    found: dict[str, float] = {}
    for each in lists:
        for rank, text in enumerate(dict.fromkeys(each), 1):
            found[text] = found.get(text, 0.0) + 1 / (_RANKS_AHEAD + rank)
    best = sorted(found, key=lambda text: -found[text])
    return best[:k] if k else best


# ---- one primitive each


def _split(step: Step, held: Mapping[str, Held], offsets: Offsets) -> Value:
    (source,) = step.reads
    tokens, overlap = step.what["tokens"], step.what["overlap"]
    return [piece for text in _listed(held[source]) for piece in cut(text, offsets(text), tokens, overlap)]


def _when(step: Step, held: Mapping[str, Held], offsets: Offsets) -> Value:
    (source,) = step.reads
    how, argument = step.what["test"]
    return "true" if _holds(how, argument, as_text(_value(held[source]))) else "false"


def _holds(how: str, argument: Any, text: str) -> bool:
    match how:
        case "equals":
            return text == str(argument)
        case "contains":
            return str(argument) in text
        case "matches":
            return matches(argument, text)
    try:
        number = float(text)
    except ValueError:
        raise TransformFailed("the text is no number.") from None
    return number > float(argument)


def _first_of(step: Step, held: Mapping[str, Held], offsets: Offsets) -> Held:
    return next(held[name] for name in step.reads if name in held)


def _merge(step: Step, held: Mapping[str, Held], offsets: Offsets) -> Value:
    lists = [_listed(held[name]) for name in step.what["over"] if name in held]
    if step.what["how"] == "top":
        return fused(lists, step.what["k"])
    return [text for each in lists for text in each]


def _transform(step: Step, held: Mapping[str, Held], offsets: Offsets) -> Value:
    (source,) = step.reads
    return _value(held[source])


def _gather(step: Step, held: Mapping[str, Held], offsets: Offsets) -> Held:
    most, whole = step.what.get("max_items"), held.get(step.what["list"], "")
    if most is not None and len(_listed(whole)) > most:
        raise TransformFailed(f"the list {step.what['list']!r} has more than {most} items.")
    match step.what["how"]:
        case "list":
            return [as_text(_value(held[name])) for name in _names(step, "[")]
        case "last":
            turns = _names(step, "[")
            return _value(held[turns[-1]]) if turns else str(step.what["initial"])
        case "hits":
            return list(dict.fromkeys(_all(held, _names(step, ".search["))))
        case "top":
            return _top(step, held)
        case "vectors":
            pieces = [_opaque(held[name]) for name in _names(step, ".embed[")]
            joined = Vectors(
                [text for piece in pieces for text in piece.held.texts],
                [row for piece in pieces for row in piece.held.rows],
            )
            return Opaque(joined, sum(piece.size_bytes for piece in pieces))
    # Each piece gives the one index that they share.
    return _opaque(held[_names(step, ".ingest[")[-1]])


def _top(step: Step, held: Mapping[str, Held]) -> Value:
    """The k best of the whole list: what has no score of its own place has that of its text."""
    whole = _listed(held[step.what["list"]])
    hits = [name for name in step.reads if name.startswith(f"{step.what['list']}.search[")]
    scored = _all(held, hits) if hits else whole
    points = dict(zip(scored, (-float(each) for each in _all(held, _names(step, ".rerank["))), strict=True))
    best = sorted(range(len(whole)), key=lambda place: (points[whole[place]], place))
    return [whole[place] for place in best[: step.what["k"]]]


_COMPUTED: Mapping[str, Callable[[Step, Mapping[str, Held], Offsets], Held]] = {
    "split": _split,
    "when": _when,
    "first_of": _first_of,
    "merge": _merge,
    "transform": _transform,
    "gather": _gather,
}


# ---- values


def _names(step: Step, part: str) -> list[str]:
    """The names under which a gather reads its pieces, in order."""
    return [name for name in step.reads if name.startswith(step.of + part)]


def _all(held: Mapping[str, Held], names: Iterable[str]) -> list[str]:
    return [text for name in names for text in _listed(held[name])]


def _listed(value: Held) -> list[str]:
    known = _value(value)
    return [known] if isinstance(known, str) else known


def _value(value: Held) -> Value:
    if isinstance(value, Opaque):
        raise TransformFailed("vectors and indexes are no texts.")
    return value


def _opaque(value: Held) -> Opaque:
    assert isinstance(value, Opaque)
    return value


def _bounded(made: Held, transforms: Sequence[Any], max_value_bytes: int) -> Held:
    if isinstance(made, Opaque):
        return made
    return bounded(apply(transforms, made), max_value_bytes)


def _filled(part: Any, held: Mapping[str, Held]) -> Any:
    if isinstance(part, Mapping):
        return {name: _filled(each, held) for name, each in part.items()}
    if isinstance(part, list | tuple):
        return [_filled(each, held) for each in part]
    if not isinstance(part, str):
        return part
    template = Template.parse(part)
    if template.literals == ("", "") and not isinstance(whole := _value(held[template.slots[0]]), str):
        return list(whole)
    return template.render({name: as_text(_value(held[name])) for name in template.names}).text
