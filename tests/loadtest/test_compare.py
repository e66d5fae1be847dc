"""Comparisons alternate, repeat what the generator spoilt, and refuse rather than report it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from loadtest.arrivals import Arrivals
from loadtest.compare import compare, summarise_rounds
from loadtest.plan import LoadPlan, Target, WorkloadSpec
from loadtest.report.comparison import comparison_page, print_comparison
from loadtest.running import round_runner


def plan(url: str) -> LoadPlan:
    return LoadPlan(
        Target(url),
        WorkloadSpec(model="m", prompt="x", stream=False),
        Arrivals("constant", 100.0),
        duration_s=0.4,
    )


def targets(mock: Any) -> list[Target]:
    slow = Target(mock.url, headers=(("x-mock-ttft-ms", "600"),), name="slow")
    return [Target(mock.url, headers=(("x-mock-ttft-ms", "20"),), name="quick"), slow]


@pytest.mark.slow
async def test_rounds_alternate_and_the_slower_endpoint_is_found_slower(mock: Any) -> None:
    said: list[str] = []
    result = await compare(plan(mock.url), targets(mock), 2, round_runner(None, (), 1000.0), said.append)
    assert [line.split()[2] for line in said] == ["quick", "slow", "slow", "quick"]
    found = result["targets"][1]["figures"]["latency p50"]
    assert found["ratio"] > 1.5, "30 times as long in truth; how much of that shows is the machine's affair"
    shown = io.StringIO()
    print_comparison(result, Console(file=shown, width=150))
    assert "2 blocks" in shown.getvalue() and f"x{found['ratio']:.3g}" in shown.getvalue()
    page = comparison_page(result)
    assert "latency p50, every round" in page and "<script src" not in page


def test_with_enough_blocks_a_ratio_has_an_interval_and_no_difference_is_called_none() -> None:
    def report(p50: float, p99: float) -> dict[str, Any]:
        return {
            "latency_ms": {"p50": p50, "p99": p99},
            "ttft_ms": None,
            "tpot_ms": None,
            "gap_ms": None,
            "requests": {"measured": 100, "failed": 1},
            "rates": {"ok_per_s": 50.0},
            "cost_usd": None,
            "generator": {"lateness_ms": {"p99": 0.5}},
        }

    noise = [0.98, 1.01, 1.0, 1.02, 0.99, 1.0]
    rounds = [[report(10 * k, 50.0), report(12 / k, 50 * k)] for k in noise]
    result = summarise_rounds(plan("http://x"), [Target("http://a"), Target("http://b")], rounds, False)
    figures = result["targets"][1]["figures"]
    assert figures["latency p50"]["differs"] and figures["latency p50"]["ratio"] == pytest.approx(
        1.2, rel=0.02
    )
    low, high = figures["latency p50"]["ratio_95"]
    assert low < 1.2 < high
    assert not figures["latency p99"]["differs"] and "first token p50" not in figures
    assert (result["targets"][1]["failed_share"], result["worst_lateness_p99_ms"]) == (0.01, 0.5)


@pytest.mark.slow
async def test_an_interrupted_comparison_reports_the_blocks_that_were_whole(mock: Any) -> None:
    run_round, rounds = round_runner(None, (), 1000.0), 0

    async def interrupted_in_the_third(asked: LoadPlan) -> dict[str, Any]:
        nonlocal rounds
        rounds += 1
        return {**await run_round(asked), "interrupted": rounds == 3}

    result = await compare(plan(mock.url), targets(mock), 4, interrupted_in_the_third, lambda line: None)
    assert result["interrupted"] and result["blocks"] == 1
    assert result["targets"][1]["figures"]["latency p50"]["ratio_95"] is None


@pytest.mark.slow
def test_the_command_refuses_and_says_why(mock: Any, load: Callable[..., Any]) -> None:
    result = load(
        "compare",
        mock.url,
        f"again={mock.url}",
        "--rate",
        50,
        "--duration",
        0.3,
        "--blocks",
        1,
        "--max-lateness-ms",
        1e-6,
    )
    assert result.returncode == 1
    assert "the load generator was the bottleneck in block 1 and its 2 repeats" in result.stderr
    assert result.stderr.count("repeating it") == 2
    assert "latency p50" not in result.stdout


def test_one_endpoint_is_no_comparison(mock: Any, load: Callable[..., Any]) -> None:
    assert "at least two endpoints" in load("compare", mock.url).stderr
