"""The benchmark of the quality floor runs, and would notice a guard that lets the promise be broken."""

from __future__ import annotations

import benchmarks.quality_floor.__main__ as benchmark
from router.guarantee.floor import FloorSettings, QualityFloor


def test_a_collapse_breaks_what_assumes_that_nothing_changes_and_not_the_floor() -> None:
    stream, reacts = benchmark.streams()["collapse"]
    assert reacts
    floor = benchmark.run(stream, QualityFloor(FloorSettings(0.05, 0.05, 0.3, 100)), 0.05, 0.3, 100, 1)
    unchanging = benchmark.run(stream, benchmark.Unchanging(0.05, 0.05, 0.3), 0.05, 0.3, 100, 1)
    nothing = benchmark.run(stream, benchmark.Nothing(), 0.05, 0.3, 100, 1)
    assert floor.excess < 8 < unchanging.excess < nothing.excess
    assert floor.to_large is not None and floor.back is not None
    row = benchmark.summed([floor, unchanging], 8.0, True)
    assert row["broken"] == 0.5
    assert "collapse" in benchmark.line("collapse", "floor", row)
