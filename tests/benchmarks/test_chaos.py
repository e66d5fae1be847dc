from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.chaos.__main__ import report, run
from benchmarks.chaos.site import configuration
from understudy.settings.file import parse_config


def test_its_configuration_is_one(tmp_path: Path) -> None:
    urls = {name: f"http://127.0.0.1:{port}" for name, port in (("a", 1), ("b", 2), ("c", 3))}
    config = parse_config(configuration(9, urls, tmp_path, 0.1))
    assert config.listen.workers == 2 and len(config.keys) == 4


@pytest.mark.slow
def test_a_worker_and_an_engine_are_killed_for_a_short_while(tmp_path: Path) -> None:
    """How soon all is normal again is for a machine that has time for it; the rest holds on any."""
    figures = run(0.2, 3, 5.0, tmp_path / "chaos", quiet_s=1.0, kinds=("worker killed", "engine killed"))
    assert [found for found in figures["violations"] if found["promise"] != "recovery"] == [], report(figures)
    assert figures["faults"] and figures["kept"]["feedback"]
