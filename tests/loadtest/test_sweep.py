"""The knee of a server whose capacity is known; a dial and its frontier."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from loadtest.arrivals import Arrivals
from loadtest.plan import LoadPlan, Target, WorkloadSpec
from loadtest.report.sweeps import print_sweep, sweep_page, verdict
from loadtest.running import round_runner
from loadtest.slo import parse_slo
from loadtest.sweep import find_knee, mark_frontier, parse_dial, walk_dial


def report(
    rate: float, knee: float, generator_fails_at: float = 1e9, interrupted: bool = False
) -> dict[str, Any]:
    """What a run would say of a server that meets its SLO up to `knee`."""
    late = rate >= generator_fails_at
    return {
        "interrupted": interrupted,
        "requests": {"measured": 100, "failed": 0, "ok": 100},
        "rates": {"offered_per_s": rate, "ok_per_s": rate, "failed_share": 0.0},
        "goodput": {"share": 1.0 if rate <= knee and not late else 0.5, "slo": "latency <= 1 ms"},
        "latency_ms": {"p50": 1.0, "p99": 2.0},
        "ttft_ms": None,
        "quality": None,
        "cost_usd": None,
        "generator": {"ok": not late, "reasons": ["late"] if late else [], "lateness_ms": None},
    }


async def search(knee: float, **more: Any) -> dict[str, Any]:
    async def probe(plan: LoadPlan) -> dict[str, Any]:
        return report(plan.arrivals.rate, knee, **more)

    plan = LoadPlan(Target("http://x"), arrivals=Arrivals("poisson", 10.0))
    return await find_knee(
        plan,
        probe,
        start_rate=10.0,
        max_rate=5000.0,
        need_share=0.99,
        precision=0.05,
        report_line=lambda line: None,
    )


@pytest.mark.parametrize("knee", [0.7, 9.0, 11.0, 333.0, 4900.0])
async def test_the_knee_is_found_from_either_side(knee: float) -> None:
    result = await search(knee)
    assert knee / 1.06 <= result["knee_per_s"] <= knee
    assert len(result["probes"]) < 20


async def test_a_server_that_never_meets_it_has_no_knee() -> None:
    result = await search(0.0)
    assert result["knee_per_s"] is None
    assert "no rate that was tried" in verdict({"target": "x", "slo": "s", **result})


async def test_a_server_that_always_meets_it_says_so() -> None:
    result = await search(1e9)
    assert result["knee_per_s"] == 5000.0 and "highest rate asked for" in result["stopped_because"]


async def test_a_generator_that_gives_out_first_is_not_taken_for_the_server() -> None:
    result = await search(1e9, generator_fails_at=700.0)
    assert result["knee_per_s"] == 640.0 and "generator gave out" in result["stopped_because"]


async def test_an_interrupted_search_keeps_what_it_has() -> None:
    result = await search(100.0, interrupted=True)
    assert result["stopped_because"] == "interrupted" and len(result["probes"]) == 1


@pytest.mark.slow  # It measures what a server can do, so it needs the machine to itself.
async def test_a_real_servers_capacity_is_found(serve_mock: Any) -> None:
    # Four at a time, 20 ms each: 200 requests/s and no more.
    url = serve_mock("--capacity", "4", "--ttft-ms", "20").url
    plan = LoadPlan(
        Target(url),
        WorkloadSpec(model="m", prompt="x", stream=False),
        Arrivals("poisson", 60.0),
        duration_s=0.8,
    )
    result = await find_knee(
        plan,
        round_runner(parse_slo("latency<=150ms"), (), 1000.0),
        start_rate=60.0,
        max_rate=2000.0,
        need_share=0.95,
        precision=0.9,
        report_line=lambda line: None,
    )
    assert 60 <= result["knee_per_s"] <= 260
    text = io.StringIO()
    print_sweep({"target": "x", "slo": "s", **result}, Console(file=text, width=150))
    assert "requests/s" in text.getvalue()
    assert "knee" in sweep_page({"target": "x", "slo": "s", **result})


@pytest.mark.parametrize("text", ["", "header:", "header:a", "cookie:a=1", "body:=1", "body:a="])
def test_a_dial_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a dial"):
        parse_dial(text)


def test_a_dial_is_set_in_a_header_or_in_the_body() -> None:
    plan = LoadPlan(
        Target("http://x", headers=(("X-Effort", "9"), ("a", "b"))), WorkloadSpec(extra_body='{"n": 1}')
    )
    assert parse_dial("header:x-effort=1,2").set(plan, "2").target.headers == (("a", "b"), ("x-effort", "2"))
    assert parse_dial("body:effort=low").set(plan, "low").workload.extra_body == '{"n":1,"effort":"low"}'
    assert parse_dial("body:t=0.5").set(plan, "0.5").workload.extra_body == '{"n":1,"t":0.5}'


@pytest.mark.slow
async def test_walking_a_dial_shows_what_quality_costs_in_time(mock: Any) -> None:
    plan = LoadPlan(
        Target(mock.url, headers=(("x-mock-ttft-ms", "60"),)),
        WorkloadSpec(model="m", prompt="x", stream=False),
        Arrivals("constant", 50.0),
        duration_s=0.4,
        quality_header="x-mock-quality",
    )
    dial = parse_dial("header:x-mock-dial=0,0.5,1")
    result = await walk_dial(plan, dial, round_runner(None, (), 1000.0), lambda line: None)
    assert [point["quality"] for point in result["points"]] == [0.5, 0.875, 1.0]
    assert all(point["on_frontier"] for point in result["points"])
    assert result["points"][0]["p50_ms"] < result["points"][2]["p50_ms"]
    assert "header:x-mock-dial" in sweep_page({"target": "x", "slo": "", **result})


def test_a_setting_that_another_beats_in_everything_is_off_the_frontier() -> None:
    points = [
        {"quality": 0.9, "p50_ms": 10.0, "cost_usd_per_1000": 1.0},
        {"quality": 0.8, "p50_ms": 10.0, "cost_usd_per_1000": 1.0},
        {"quality": 0.7, "p50_ms": 5.0, "cost_usd_per_1000": 1.0},
    ]
    mark_frontier(points)
    assert [point["on_frontier"] for point in points] == [True, False, True]
