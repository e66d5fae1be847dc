"""Counters of components."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from engines.components.registry import ComponentRegistry, over_http
from engines.errors import Kind
from engines.servers.prober import Pace, Prober
from gateway.components.metrics import ComponentMetrics
from tests.engines.components.asking import limits, spec
from tests.flow.upstream import Upstream
from tests.patience import until


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


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    upstream = Upstream()
    yield upstream
    upstream.forget()
    upstream.close()


async def test_how_a_component_stands_is_told(upstream: Upstream) -> None:
    """Asked in the background as engines are: `/models` below its base URL."""
    registry = CollectorRegistry()
    metrics = ComponentMetrics(registry)
    made = spec("openai", upstream.url, limits=limits(breaker_failures=1))
    components = ComponentRegistry([over_http(made)])
    prober = Prober(components.probed, Pace(every_s=0.01, down_s=0.01, look_s=0.01), metrics.stands)

    def stands(state: str) -> float | None:
        return registry.get_sample_value("understudy_component_state", {"component": "c", "state": state})

    upstream.plays(lambda call: call.answer(b"{}"))
    prober.start()
    try:
        await until(lambda: stands("up") == 1, "a good answer")
        upstream.plays(lambda call: call.answer(b"", 500))
        await until(lambda: stands("down") == 1 and stands("up") == 0, "a bad answer")
    finally:
        await prober.aclose()
        await components.aclose()
    assert upstream.call().line == b"GET /v1/models HTTP/1.1"
