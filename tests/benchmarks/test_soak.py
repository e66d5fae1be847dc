from __future__ import annotations

from pathlib import Path

from benchmarks.soak.__main__ import Process, configuration
from understudy.settings.file import parse_config


def process(*rss_mib: float, files: int = 10) -> Process:
    made = Process("worker")
    made.rss_mib = list(rss_mib)
    made.requests = [1000 * n for n in range(len(rss_mib))]
    made.files = [files] * len(rss_mib)
    made.threads = [5] * len(rss_mib)
    return made


def test_the_warm_up_counts_for_nothing() -> None:
    assert process(50, 150, 180, 200, 200.1, 200, 199.9, 200, 200.1).grown()["ok"]


def test_memory_that_grows_steadily_is_found_out() -> None:
    grown = process(*(200 + 0.5 * n for n in range(30))).grown()
    assert not grown["ok"] and grown["mib_per_10000"] == 5.0


def test_files_that_are_never_closed_are_found_out() -> None:
    leaking = process(*([200.0] * 30))
    leaking.files = [10 + 3 * n for n in range(30)]
    assert not leaking.grown()["ok"]


def test_its_configuration_is_one(tmp_path: Path) -> None:
    config = parse_config(configuration("http://127.0.0.1:9/v1", tmp_path))
    assert config.listen.workers == 2 and config.memory is not None
