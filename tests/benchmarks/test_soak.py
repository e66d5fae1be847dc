from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.soak.__main__ import configuration, report, running
from understudy.settings.file import parse_config


def test_its_configuration_is_one(tmp_path: Path) -> None:
    config = parse_config(configuration("http://127.0.0.1:9/v1", tmp_path, 0))
    assert config.listen.workers == 2 and config.memory is not None


@pytest.mark.slow
def test_it_runs(tmp_path: Path) -> None:
    with running(tmp_path, rate=20) as soak:
        asyncio.run(soak.run(0.3, texts=20))
        text, figures = report(soak, 0.3)
    assert figures["requests"] > 330 and figures["reloads"] == 10, text
    assert {row["name"].split()[0] for row in figures["processes"]} >= {"supervisor", "worker"}, text
    assert figures["files"][0]["mib"][-1] > 0, text
