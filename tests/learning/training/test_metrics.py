"""What an operator sees of choosing: how each request was decided, once, and nothing of requests that were not weighed."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from learning.training.metrics import LearningMetrics
from router.plan import Action, Choice, Weighed


def choice(**changes: Any) -> Choice:
    ways = tuple(
        Weighed(Action(engine, False), 0.5, 0.5, 0.5, 0.0, 0.0, 0.0, {}) for engine in ("small", "large")
    )
    fields: dict[str, Any] = {
        "chosen": 0, "chosen_without_load": 0, "features_version": "1", "context": {}, "explored": False,
    }  # fmt: skip
    return Choice(ways, **(fields | changes))


@pytest.mark.parametrize(
    ("made", "how", "shifted"),
    [
        (choice(), "best", 0),
        (choice(explored=True), "explored", 0),
        (choice(floored=True, chosen=1, chosen_without_load=1), "floored", 0),
        (choice(chosen_without_load=1), "best", 1),
    ],
)
def test_a_weighed_request_is_counted_once_by_how_it_was_decided(
    made: Choice, how: str, shifted: int
) -> None:
    registry = CollectorRegistry()
    LearningMetrics(registry).decided("m", made)
    counted = {
        kind: registry.get_sample_value("understudy_choices_total", {"model": "m", "how": kind})
        for kind in ("best", "explored", "floored")
    }
    assert {kind: n for kind, n in counted.items() if n} == {how: 1.0}
    assert (registry.get_sample_value("understudy_load_shifted_total", {"model": "m"}) or 0) == shifted


def test_requests_that_were_not_weighed_are_not_counted() -> None:
    registry = CollectorRegistry()
    metrics = LearningMetrics(registry)
    metrics.decided("m", None)
    assert registry.get_sample_value("understudy_choices_total", {"model": "m", "how": "best"}) is None
