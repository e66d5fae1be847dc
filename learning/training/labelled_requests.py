"""Turns requests with a known quality per engine, from a file of labels, into rows to train a bandit on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from learning.training.bandit import Row
from router.choosing import features
from router.choosing.bandit import Lesson, Option, Scene
from router.choosing.features import Request
from router.digest import question
from store.admission.cutting import EMBEDDED_CHARACTERS, cut
from store.records import Vector

_CHARACTERS_PER_TOKEN = 4


class BadLabel(Exception):
    """The line cannot be used. The text says why, and holds nothing of the request."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A request and the quality of each engine's answer."""

    messages: Sequence[Mapping[str, Any]]
    quality: Mapping[str, float]
    """By engine name, 0..1."""


def labelled(line: Any) -> Labelled:
    """Reads `{"messages": [...] or "prompt": "...", "quality": {"engine": 0..1}}`. Raises BadLabel."""
    if not isinstance(line, dict):
        raise BadLabel("not a JSON object")
    messages = line.get("messages")
    if messages is None and isinstance(line.get("prompt"), str):
        messages = [{"role": "user", "content": line["prompt"]}]
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages) or not messages:
        raise BadLabel("neither messages nor a prompt")
    quality = line.get("quality")
    if not isinstance(quality, dict) or not quality:
        raise BadLabel("no quality per engine")
    for value in quality.values():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
            raise BadLabel("a quality that is no number from 0 to 1")
    return Labelled(messages, {str(engine): float(value) for engine, value in quality.items()})


def engines_by_quality(requests: Iterable[Labelled]) -> tuple[str, ...]:
    """Engines from the worst to the best on average: an order from small to large if none is configured."""
    sums: dict[str, list[float]] = {}
    for request in requests:
        for engine, value in request.quality.items():
            sums.setdefault(engine, []).append(value)
    return tuple(sorted(sums, key=lambda engine: (math.fsum(sums[engine]) / len(sums[engine]), engine)))


def row(
    request: Labelled,
    engines: Sequence[str],
    vector_of: Callable[[str], Vector],
    *,
    at_s: float,
    max_characters: int = EMBEDDED_CHARACTERS,
) -> Row:
    """The row of one labelled request. `engines` run from small to large; the last is the reference.

    Features come from the function that serving uses; those that a label does not determine are left out. Raises BadLabel.
    """
    text = cut(question(request.messages), max_characters)
    if not text:
        raise BadLabel("no question")
    context = features.request_features(
        Request(
            text,
            turns=sum(m.get("role") in ("user", "assistant") for m in request.messages),
            prompt_tokens=sum(len(str(m.get("content", ""))) for m in request.messages)
            // _CHARACTERS_PER_TOKEN,
        )
    )
    last = max(1, len(engines) - 1)
    options = [Option(engine, False, {"rank": place / last}) for place, engine in enumerate(engines)]
    qualities = {place: request.quality[e] for place, e in enumerate(engines) if e in request.quality}
    if not qualities:
        raise BadLabel("no engine of those that are served")
    return Row(Lesson(Scene(vector_of(text), context, options), qualities), at_s)
