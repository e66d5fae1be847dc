"""The benchmark of stalls runs, and its probe sees a loop that stands still."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.stalls.__main__ import measured, table
from benchmarks.stalls.loads import loads


@pytest.mark.slow
def test_each_load_is_asked_and_the_loop_watched_meanwhile(tmp_path: Path) -> None:
    asked = loads(quick=True)
    figures = measured(tmp_path, asked, rounds=1)
    assert [row["load"] for row in figures][1:] == [load.name for load in asked]
    assert all(
        0 < held <= wall for row in figures for held, wall in zip(row["held_ms"], row["wall_ms"], strict=True)
    )
    assert table(figures).count("\n") == len(figures) + 1
