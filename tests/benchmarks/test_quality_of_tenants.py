"""The benchmark of each tenant's own quality runs, on a log that takes a second to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.quality_of_tenants.__main__ import measured


@pytest.mark.slow
async def test_a_look_at_all_tenants_is_timed_and_so_are_the_pages(tmp_path: Path) -> None:
    figures = await measured(tmp_path, tenants=10, outcomes=800, exponent=0.0)
    assert figures["measured"] == 10 and figures["read_ms"] > 0
    assert all(took["median_ms"] > 0 for took in figures["pages"].values())
