"""The benchmark of the KV plan runs, and would notice a solver or an order that is worse than what it is compared with."""

from __future__ import annotations

import benchmarks.kv_plan.__main__ as benchmark


def test_exact_is_never_beaten_and_the_bound_never_reached_over() -> None:
    for row in benchmark.compare_solvers([20 + n % 97 for n in range(300)], seed=2):
        assert 0 < row["most used"] <= row["exact"] + 1e-9
        assert row["exact"] <= row["bound"] + 1e-9
