"""Reports: whole, escaped, self-contained, and free of keys."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console

from loadtest.arrivals import Arrivals
from loadtest.plan import LoadPlan, Target, WorkloadSpec
from loadtest.prices import parse_price
from loadtest.report.charts import charts
from loadtest.report.files import RequestLog, write_html, write_json
from loadtest.report.html import page
from loadtest.report.summary import summarise
from loadtest.report.text import print_report
from loadtest.running import run_plan
from loadtest.slo import parse_slo
from loadtest.totals import Totals

NASTY = "<script>alert(1)</script>"


def plan(url: str, **more: Any) -> LoadPlan:
    target = Target(url, headers=(("authorization", "Bearer sk-canary"),), name=NASTY)
    return LoadPlan(
        target, WorkloadSpec(model=NASTY, prompt="x"), Arrivals("constant", 100.0), duration_s=0.8, **more
    )


@pytest.fixture
async def finished(mock: Any, tmp_path: Path) -> dict[str, Any]:
    with RequestLog(tmp_path / "requests.csv") as log:
        return await run_plan(
            plan(mock.url), quiet=True, slo=parse_slo("ttft<=1s"), prices=(parse_price("1,2"),), each=log.add
        )


async def test_the_page_needs_no_network_and_escapes_what_the_endpoint_said(
    finished: dict[str, Any], tmp_path: Path
) -> None:
    write_html(finished, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    own = text.partition("<body>")[2]
    assert "default-src 'none'" in text and "Content-Security-Policy" in text
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", text)
    assert NASTY not in own and "&lt;script&gt;" in own
    for title in (
        "Load and answers over time",
        "Latency over time",
        "How latency is distributed",
        "Heat map of latency",
    ):
        assert title in own


async def test_no_form_of_the_report_holds_the_key(finished: dict[str, Any], tmp_path: Path) -> None:
    write_json(finished, tmp_path / "r.json")
    shown = io.StringIO()
    print_report(finished, Console(file=shown, width=150))
    everything = (tmp_path / "r.json").read_text() + page(finished) + shown.getvalue()
    assert "sk-canary" not in everything and "sk-canary" not in (tmp_path / "requests.csv").read_text()


async def test_json_and_csv_agree(finished: dict[str, Any], tmp_path: Path) -> None:
    write_json(finished, tmp_path / "r.json")
    report = orjson.loads((tmp_path / "r.json").read_bytes())
    lines = list(csv.DictReader((tmp_path / "requests.csv").read_text().splitlines()))
    assert len(lines) == report["requests"]["measured"] == report["requests"]["ok"] == 79
    assert {line["outcome"] for line in lines} == {"ok"}
    slowest_ms = max(float(line["latency_s"]) for line in lines) * 1e3
    assert report["latency_ms"]["max"] == pytest.approx(slowest_ms, rel=0.002)
    assert sum(report["timeline"]["due"]) == 79
    assert report["cost_usd"]["total"] > 0 and report["goodput"]["share"] > 0


async def test_the_terminal_says_what_matters(finished: dict[str, Any]) -> None:
    shown = io.StringIO()
    print_report(finished, Console(file=shown, width=150))
    for words in (
        "answered 79 of 79",
        "first token",
        "per token",
        "goodput",
        "cost: $",
        "generator: late p50",
    ):
        assert words in shown.getvalue()


def test_a_run_without_a_single_answer_still_has_a_report(tmp_path: Path) -> None:
    asked = plan("http://127.0.0.1:9")
    report = summarise(
        asked, Totals(0.0, 1.0, 1), started_at="now", interrupted=True, failure="a client process ended"
    )
    assert report["latency_ms"] is None and charts(report) == []
    write_html(report, tmp_path / "r.html")
    shown = io.StringIO()
    print_report(report, Console(file=shown, width=150))
    assert "INTERRUPTED" in shown.getvalue() and "INCOMPLETE: a client process ended" in shown.getvalue()


async def test_failures_and_a_late_generator_are_said_aloud(mock: Any) -> None:
    asked = plan(mock.url)
    asked = replace(asked, target=replace(asked.target, headers=(("x-mock-fault", "http=503"),)))
    report = await run_plan(asked, quiet=True, max_lateness_ms=1e-6)
    shown = io.StringIO()
    print_report(report, Console(file=shown, width=150))
    assert "failures: http 503: 79" in shown.getvalue()
    assert "THE GENERATOR WAS NOT ON TIME" in shown.getvalue()
    assert not report["generator"]["ok"] and "not on time" in page(report)
