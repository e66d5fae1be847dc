"""What is configured is what comparisons are made and paid with, and all workers together spend no more than one would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from store import Store
from understudy.settings.config import Config
from understudy.settings.file import parse_config
from understudy.settings.learning import JudgingSettings
from understudy.setup.outcomes import accounts


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def configured(store: Store, price: dict[str, float], **more: Any) -> Config:
    return parse_config(
        {
            "listen": {"workers": 4},
            "engines": {
                "small": {"kind": "simulated", "role": "understudy"},
                "large": {"kind": "simulated", "role": "lead", "price": price},
            },
            "models": {"m": {"engines": ["small", "large"]}},
            "memory": {"data_dir": str(store.folder)},
            **more,
        }
    )


@pytest.mark.parametrize("workers", [1, 4])
async def test_all_workers_together_stay_within_the_money(store: Store, workers: int) -> None:
    judging = {"engine": "large", "max_usd_per_day": 2}
    learning = {"spend_share": 0.1, "advanced": {"starting_requests": 10**6}}
    config = configured(
        store, {"input_usd_per_mtok": 0, "output_usd_per_mtok": 10}, judging=judging, learning=learning
    )
    assert config.judging is not None
    each = [accounts(config, store, config.judging) for _ in range(workers)]
    assert each[0].limits.spend_share == 0.1 and each[0].limits.max_usd_per_day == 2
    reserved = [await one.reserve("t", "usd", 0.5, 1.0) is not None for one in each * 8]
    assert sum(reserved) == 4


async def test_a_reference_without_a_price_is_counted_in_tokens_and_this_is_said(store: Store) -> None:
    with capture_logs() as logs:
        made = accounts(configured(store, {}), store, JudgingSettings(engine="large"))
    assert made.unit("m") == "tokens"
    assert [(log["event"], log["models"]) for log in logs] == [("judging_in_tokens", ["m"])]
