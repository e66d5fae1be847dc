"""What the overview warns of is in the metrics and in the webhooks, too, whether or not anybody looks at the pages."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from store import Store
from tests.learning.guarantee.test_quality_alarm import NOW, REFERENCES, Log
from tests.patience import wait_for
from understudy.background.housekeeping import Housekeeper
from understudy.background.quality_watch import QualityMetrics, QualityWatch
from understudy.settings.file import parse_config
from understudy.setup.webhooks import _look

LABELS = {"model": "demo", "engine": "small", "by": "judge"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def test_series_follow_what_becomes_known(store: Store) -> None:
    registry = CollectorRegistry()
    watch = QualityWatch(
        store.decisions.quality,
        REFERENCES,
        0.9,
        QualityMetrics(registry),
        clock=lambda: NOW,
        every_s=0.02,
    )

    def value(name: str) -> float | None:
        return registry.get_sample_value(name, LABELS)

    # Another test's thread may still be ending.
    before = set(threading.enumerate())
    keeper = Housekeeper(watch.chores)
    keeper.start()
    try:
        Log(store).note([0.0] * 100)
        wait_for(lambda: value("understudy_quality_alarm") == 2, "the alarm")
        assert value("understudy_offloaded_quality") == 0.0
        assert value("understudy_offloaded_quality_outcomes") == 100
        assert 0 < (value("understudy_offloaded_quality_upper") or 0) < 0.1
        Log(store, "b2").note([1.0] * 200, at_s=NOW - 60, apart_s=0.1)
        wait_for(lambda: value("understudy_quality_alarm") == 0, "the end of the alarm")
    finally:
        keeper.stop()
    assert "housekeeper" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_a_webhook_is_told_once_the_sums_say_so(store: Store) -> None:
    engines = {name: {"kind": "simulated", "role": "lead"} for name in ("small", "large")}
    config = parse_config({"engines": engines, "models": {"demo": {"engines": ["small", "large"]}}})
    look = _look(config, store)

    def told(now_s: float) -> list[str]:
        bodies = [one.body for one in look(now_s) if one.event == "quality.alarm"]
        return [json.loads(body)["data"]["level"] for body in bodies]

    assert told(NOW) == []
    Log(store).note([0.0] * 100)
    assert told(NOW + 1) == [], "it is read every few seconds"
    assert told(NOW + 10) == ["critical"]


def test_tenants_with_an_alarm_are_counted_by_model_and_none_is_named(store: Store) -> None:
    registry = CollectorRegistry()
    watch = QualityWatch(
        store.decisions.quality, REFERENCES, 0.9, QualityMetrics(registry), clock=lambda: NOW
    )

    def count(level: str) -> float | None:
        labels = {"model": "demo", "level": level}
        return registry.get_sample_value("understudy_quality_alarm_tenants", labels)

    Log(store, "good").note([1.0] * 900, at_s=NOW - 1_000)
    watch.look_at_tenants()
    assert (count("critical"), count("warning")) == (0, 0)
    for tenant in ("b1", "b2"):
        Log(store, tenant).note([0.0] * 30)
    watch.look_at_tenants()
    assert (count("critical"), count("warning")) == (2, 0)
    series = next(one for one in registry.collect() if one.name == "understudy_quality_alarm_tenants")
    assert {tuple(sorted(sample.labels)) for sample in series.samples} == {("level", "model")}


def test_a_webhook_names_the_tenant_that_everybody_hides_once_for_each_change(store: Store) -> None:
    engines = {name: {"kind": "simulated", "role": "lead"} for name in ("small", "large")}
    config = parse_config({"engines": engines, "models": {"demo": {"engines": ["small", "large"]}}})
    look, outbox = _look(config, store), store.jobs.webhooks
    tenant = store.keys.create("acme", "app")[0].tenant
    wants = [("e1", frozenset({"quality.alarm"}))]

    def told(now_s: float) -> list[tuple[str, str]]:
        outbox.notice(outbox.changed(look(now_s)), wants, now_s).result(60)
        bodies = [json.loads(one.body)["data"] for one in outbox.recent() if one.made_at_s == now_s]
        return [(one["tenant_name"], one["level"]) for one in bodies]

    Log(store, "good").note([1.0] * 900, at_s=NOW - 1_000)
    Log(store, tenant).note([0.0] * 40)
    assert told(NOW) == [("acme", "critical")]
    assert told(NOW + 1) == told(NOW + 70) == []
