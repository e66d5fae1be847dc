"""Reads a run's measured times: how long each module was at work, and what a chain of them would have taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workflows.names import StepId


@dataclass(frozen=True, slots=True)
class Measured:
    """When one step of a run, or one piece of one, was carried out."""

    id: StepId
    module: str
    """The step of the definition that it is of."""
    started_s: float
    ended_s: float


def busy_s(measured: Iterable[Measured]) -> Mapping[str, float]:
    """Seconds during which each module was at work, on one piece or several; waits between its pieces do not count."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for each in measured:
        spans.setdefault(each.module, []).append((each.started_s, each.ended_s))
    return {module: _covered_s(of_module) for module, of_module in spans.items()}


def module_chain_s(measured: Iterable[Measured]) -> float:
    """Seconds that the same work would have taken module after module, each waiting for the whole of the one before.

    An estimate: pieces are as fast in their own time as they were here, and nobody else was in the way.
    """
    return sum(busy_s(measured).values())


def _covered_s(spans: Iterable[tuple[float, float]]) -> float:
    covered, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered
