"""Guesses how long lists will be, as far as a definition tells before a run: for drawings and depths, never for a run."""

from __future__ import annotations

from collections.abc import Mapping

from workflows.definition import Definition

UNKNOWN = 3
"""The length of a list of which nothing is known, and of one that a chat makes."""
MOST = 1000


def guessed(definition: Definition, counts: Mapping[str, int] | None = None) -> dict[str, int]:
    """The length of every name's list, 1 for a text. `counts` are those that are known."""
    found = dict(counts or {})
    for name, spec in definition.inputs.items():
        found.setdefault(name, UNKNOWN if spec.kind in ("texts", "json") else 1)
    for name in definition.steps:
        _guess(name, definition, found)
    return found


def _guess(name: str, definition: Definition, found: dict[str, int]) -> int:
    if name in found:
        return found[name]
    step = definition.steps[name]
    over = [_guess(each, definition, found) for each in step.over]
    match step.kind:
        case "chat":
            count = 1 if step.splits is None else (step.items or UNKNOWN)
        case "split":
            count = UNKNOWN * over[0]
        case "search":
            count = step.k * over[0]
        case "rerank":
            count = min(step.k, over[0])
        case "embed" | "ingest" | "map":
            count = over[0]
        case "first_of":
            count = max(over)
        case "merge":
            count = min(step.k, sum(over)) if step.k else sum(over)
        case "transform":
            count = UNKNOWN if step.transforms[-1].kind in ("lines", "split", "json") else over[0]
        case _:
            count = 1
    found[name] = min(count, MOST)
    return found[name]
