"""The benchmark of each tenant's own quality runs, on a log that takes a second to write."""

from __future__ import annotations

from pathlib import Path

from benchmarks.quality_of_tenants.__main__ import measured


def test_a_look_at_all_tenants_is_timed(tmp_path: Path) -> None:
    figures = measured(tmp_path, tenants=10, outcomes=800, exponent=0.0)
    assert figures["measured"] == 10 and figures["read_ms"] > 0
