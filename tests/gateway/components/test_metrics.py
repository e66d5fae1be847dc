"""Counters of components."""

from __future__ import annotations

import re

from prometheus_client import CollectorRegistry, generate_latest

from engines.errors import Kind
from gateway.components.metrics import ComponentMetrics


def test_a_component_is_counted_by_ability() -> None:
    registry = CollectorRegistry()
    counted = ComponentMetrics(registry).of("local", "embed")
    counted.queued(3)
    counted.queued(-1)
    counted.begun()
    counted.waited(0.2)
    counted.answered(2, 0.01)
    counted.failed(Kind.SERVER)
    text = generate_latest(registry).decode()
    for name, value in {
        "queued": 2,
        "in_flight": 1,
        "items_total": 2,
        "seconds_count": 1,
        "wait_seconds_sum": 0.2,
    }.items():
        assert re.search(
            rf'^understudy_component_{name}{{ability="embed",component="local"}} {value}', text, re.M
        )
    assert 'understudy_component_failures_total{ability="embed",component="local",kind="server"} 1.0' in text
    counted.ended()
    assert (
        registry.get_sample_value(
            "understudy_component_in_flight", {"component": "local", "ability": "embed"}
        )
        == 0
    )
