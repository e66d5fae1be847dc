"""Settings that are no more. A file that has one is taken along without it, and a sentence says what holds now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_RETIRED = {
    "models.*.advanced.floor_confidence": "the bound behind max_loss holds with 95 % confidence",
    "memory.advanced.answer_vectors": "answers are embedded wherever a model's policy is in_context",
    "learning.advanced.max_outcomes": "the latest 20,000 outcomes of a tenant and model are trained on",
    "learning.advanced.train_scorer": "the scorer of examples is trained wherever the router is",
    "workflows.advanced.max_prompt_characters": "a prompt of a step has at most 8,000,000 characters",
    "workflows.passes": "a workflow gets all passes unless its own `passes` says otherwise",
    "workflows.max_depth": "100 steps of a workflow may wait for one another",
    "replay.advanced.max_in_flight": "replay pauses by what is learnt of usual traffic",
}
"""A setting, with * for any name, to what holds instead."""


def without_retired(data: Any) -> tuple[Any, tuple[str, ...]]:
    """`data` without retired settings, and a sentence for each that it had."""
    told = []
    for setting, instead in _RETIRED.items():
        for path in list(_paths(data, setting.split("."))):
            data = _without(data, path)
            told.append(
                f"{'.'.join(map(str, path))} is no setting any more: {instead}; take it out of the file"
            )
    return data, tuple(told)


def _paths(data: Any, pattern: list[Any]) -> Iterator[list[Any]]:
    """Where `data` has what the pattern names."""
    if not isinstance(data, dict):
        return
    first, rest = pattern[0], pattern[1:]
    for name in data:
        if first not in ("*", name):
            continue
        # A mapping is no value of a setting: a workflow may have the name.
        if not rest and not isinstance(data[name], dict):
            yield [name]
        for path in _paths(data[name], rest) if rest else ():
            yield [name, *path]


def _without(data: Any, path: list[Any]) -> Any:
    """A copy of the mapping without what lies at `path`; the mapping itself stays as it is."""
    first, rest = path[0], path[1:]
    if not rest:
        return {name: value for name, value in data.items() if name != first}
    return {name: _without(value, rest) if name == first else value for name, value in data.items()}
