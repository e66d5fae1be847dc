"""The benchmark of the KV plan runs, and would notice a solver or an order that is worse than what it is compared with."""

from __future__ import annotations

import benchmarks.kv_plan.__main__ as benchmark


def test_exact_is_never_beaten_and_the_bound_never_reached_over() -> None:
    for row in benchmark.compare_solvers([20 + n % 97 for n in range(300)], seed=2):
        assert 0 < row["most used"] <= row["exact"] + 1e-9
        assert row["exact"] <= row["bound"] + 1e-9


def test_what_is_kept_warm_standing_first_is_shared_more_than_what_helps_most_standing_last() -> None:
    tokens = [30 + n % 61 for n in range(benchmark.TOPICS * benchmark.EXAMPLES_EACH)]
    row = benchmark.compare_orders(tokens, requests=2000, blocks=1000, seed=3)
    assert row["helpful_last"] < row["by age"] < row["kept warm first"] < row["prompt"]


def test_a_prefix_is_shared_only_from_its_beginning_and_in_whole_blocks() -> None:
    cache = benchmark.PrefixCache(100)
    assert cache.ask([(1, 40), (2, 40)]) == 0
    assert cache.ask([(1, 40), (3, 40)]) == 32
    assert cache.ask([(2, 40), (1, 40)]) == 0
    assert cache.ask([(1, 40), (2, 40)]) == 80
