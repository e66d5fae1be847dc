"""What is configured is what is judged with, and several workers together spend no more than one would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.engine import Engine
from gateway.metrics import Metrics
from learning.outcomes.judging import Judging
from store import Store
from tests.learning.outcomes.test_judging import Broken
from understudy.settings.file import parse_config
from understudy.setup.outcomes import judging


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def made(store: Store, workers: int, **advanced: float) -> Judging:
    config = parse_config(
        {
            "listen": {"workers": workers},
            "engines": {
                "small": {"kind": "simulated", "role": "understudy"},
                "large": {"kind": "simulated", "role": "lead"},
                "judge": {"kind": "simulated", "role": "judge"},
            },
            "models": {"m": {"engines": ["small", "large"]}},
            "memory": {"data_dir": str(store.folder)},
            "judging": {"engine": "judge", "advanced": advanced},
        }
    )
    assert config.judging is not None
    engines: dict[str, Engine] = {name: Broken(name, None) for name in config.engines}
    return judging(config.judging, config, store, engines, Metrics())


@pytest.mark.parametrize("workers", [1, 4])
def test_all_workers_together_stay_within_the_money(store: Store, workers: int) -> None:
    each = [made(store, workers, max_usd_per_hour=2) for _ in range(workers)]
    reserved = 0.0
    for one in each:
        while one.spend.reserve(0.5):
            reserved += 0.5
    assert reserved == 2.0
