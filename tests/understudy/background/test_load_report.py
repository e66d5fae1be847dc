"""A worker's load reaches processes of other machines as a row, which goes when the worker does."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from store import Store
from store.jobs.live_load import LiveLoad, live_load
from tests.patience import until
from understudy.background.load_report import LoadReporter


async def test_a_worker_says_how_it_stands_to_its_machine_and_to_others(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    reporter = LoadReporter(tmp_path, every_s=0.01, elsewhere=store.jobs.loads)
    try:
        reporter.began()
        reporter.start()
        said = LiveLoad(1, 1, 0)
        await until(lambda: store.jobs.loads.now() == said, "the row")
        assert live_load(tmp_path) == said
        assert store.jobs.loads.recorded_to_s() <= time.monotonic()
        await asyncio.to_thread(reporter.stop)
        await until(lambda: store.jobs.loads.now() == LiveLoad(0, 0, 0), "the row to go")
    finally:
        store.close()
