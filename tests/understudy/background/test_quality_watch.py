"""What the overview warns of is in the metrics and in the webhooks, too, whether or not anybody looks at the pages."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from store import Store
from tests.learning.evaluation.test_quality_alarm import NOW, REFERENCES, Log
from tests.patience import wait_for
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

    watch.start()
    try:
        Log(store).note([0.0] * 100)
        wait_for(lambda: value("understudy_quality_alarm") == 2, "the alarm")
        assert value("understudy_offloaded_quality") == 0.0
        assert value("understudy_offloaded_quality_outcomes") == 100
        assert 0 < (value("understudy_offloaded_quality_upper") or 0) < 0.1
        Log(store, "b2").note([1.0] * 200, at_s=NOW - 60, apart_s=0.1)
        wait_for(lambda: value("understudy_quality_alarm") == 0, "the end of the alarm")
    finally:
        watch.stop()
    assert "housekeeper" not in {thread.name for thread in threading.enumerate()}


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
