"""The benchmark of failing engines runs, reads the documented settings, and does not take a wrong answer for a whole one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.failover.__main__ import chosen, measured, summary, table
from benchmarks.failover.gateway import documented
from benchmarks.failover.scenario import PASS
from benchmarks.failover.virtual import p99_s


@pytest.mark.slow
async def test_a_few_failures_are_replayed_against_a_gateway(tmp_path: Path) -> None:
    asked = chosen("S04,S08,E11")
    found = await measured(asked, documented(), tmp_path)
    assert [found[one].verdict for one in ("S04", "S08", "S00")] == [PASS] * 3, found
    assert found["E11"].figures["answered"] == 1 and table(asked, found).count("\n") == len(asked) + 1
    assert summary(asked, found).startswith(("4 pass", "3 pass, 1 partial"))


def test_in_virtual_time_replicas_take_what_round_robin_cannot() -> None:
    assert p99_s(30, 60, seed=1) < p99_s(30, 60, seed=1, by_turns=True)
    assert p99_s(30, 60, seed=1) == p99_s(30, 60, seed=1), "nothing but the seed decides"
