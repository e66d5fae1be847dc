"""The promises of the tool, against a mock whose truth is known."""

from __future__ import annotations

import asyncio
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from loadtest.arrivals import Arrivals
from loadtest.plan import LoadPlan, Target, WorkloadSpec
from loadtest.running import run_plan
from loadtest.slo import parse_slo
from loadtest.traces import read_trace
from tests.patience import wait_for

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"


@pytest.mark.slow
async def test_reported_percentiles_are_within_two_per_cent_of_the_truth(
    serve_mock: Callable[..., Any],
) -> None:
    server = serve_mock(
        "--ttft-ms", "lognormal:300,0.3", "--token-ms", "uniform:5,15", "--tokens", "uniform:4,12"
    )
    plan = LoadPlan(
        Target(server.url), WorkloadSpec(model="m", prompt="x"), Arrivals("poisson", 350.0), duration_s=2.5
    )
    # A crowded machine makes any run late, and the report says so; a tool that measures wrongly is wrong in every run.
    off, believed = {}, False
    for _ in range(4):
        urllib.request.urlopen(urllib.request.Request(server.url + "/mock/reset", method="POST")).close()
        report = await run_plan(plan, quiet=True)
        truth = server.get("/mock/truth")
        assert report["requests"]["ok"] == len(truth["latency_s"]) > 700
        off = {
            f"{metric} p{p}": report[metric][f"p{p}"]
            / (np.percentile(true_s, p, method="inverted_cdf") * 1e3)
            - 1
            for metric, true_s in (("latency_ms", truth["latency_s"]), ("ttft_ms", truth["first_token_s"]))
            for p in (50, 75, 90, 95, 99)
        }
        believed = believed or report["generator"]["ok"]
        if all(abs(share) <= 0.02 for share in off.values()):
            return
    if not believed:
        pytest.skip(
            "this machine is too crowded: four reports of four say that the generator was not on time"
        )
    pytest.fail(f"a report that calls itself sound is off by {off}")


@pytest.mark.slow
async def test_a_stall_shows_up_in_every_request_it_delayed(serve_mock: Callable[..., Any]) -> None:
    # Of 3 s the server is silent for 1: a third of the requests wait, evenly from 1 s down to nothing.
    true_ms = {"p50": 0.0, "p75": 250.0, "p90": 700.0, "p99": 970.0}
    found = {}
    # A crowded machine stalls both ends on its own; a tool that hides the stall hides it in every run.
    for _ in range(4):
        plan = LoadPlan(
            Target(serve_mock("--fault", "1+1:stall").url),
            WorkloadSpec(model="m", prompt="x", stream=False),
            Arrivals("constant", 200.0),
            duration_s=3.0,
        )
        report = await run_plan(plan, quiet=True)
        assert report["requests"]["ok"] == report["requests"]["measured"]
        found = {p: report["latency_ms"][p] for p in true_ms}
        if found == pytest.approx(true_ms, abs=100.0):
            return
    pytest.fail(f"{found} is not {true_ms}")


@pytest.mark.slow
async def test_a_closed_loop_hides_the_same_stall_and_so_is_not_the_default(
    serve_mock: Callable[..., Any],
) -> None:
    url = serve_mock("--fault", "0.7+1:stall", "--ttft-ms", "5").url
    workload = WorkloadSpec(model="m", prompt="x", stream=False)
    report = await run_plan(LoadPlan(Target(url), workload, closed_users=2, duration_s=2.2), quiet=True)
    assert report["latency_ms"]["p95"] < 500 < report["latency_ms"]["max"]
    assert LoadPlan(Target(url)).closed_users == 0


async def test_https_is_asked_as_http_is(small_server: Callable[..., Any], tls: tuple[Path, Path]) -> None:
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(*tls)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]))
            writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 26\r\n\r\n{"choices":[{"text":"a"}]}')

    async with small_server(answer, ssl=server_side) as url:
        workload, arrivals = WorkloadSpec(model="m", prompt="x", stream=False), Arrivals("constant", 50.0)
        for verify, outcomes in ((False, {"ok": 19}), (True, {"TLS: certificate verify failed": 19})):
            target = Target(url, verify_tls=verify)
            report = await run_plan(LoadPlan(target, workload, arrivals, duration_s=0.395), quiet=True)
            assert report["outcomes"] == outcomes


async def test_goodput_engines_cache_and_cost_reach_the_report(mock: Any) -> None:
    report = await run_plan(
        LoadPlan(
            Target(mock.url),
            WorkloadSpec(model="m", prompt="x"),
            Arrivals("constant", 100.0),
            duration_s=0.6,
            warmup_s=0.105,
        ),
        slo=parse_slo("latency<=30s"),
        quiet=True,
    )
    assert report["goodput"]["share"] == 1.0 and report["requests"]["warm_up"] == 10
    assert report["models"]["m"]["tokens_out"] == 8 * report["requests"]["ok"]
    assert report["engines"] == {"(none said)": {"answers": report["requests"]["ok"], "share": 1.0}}


@pytest.mark.slow
@pytest.mark.parametrize("speed", [1.0, 20.0])
@pytest.mark.parametrize("name", ["trace_azure2023_conv.csv.gz", "trace_mooncake_conversation.jsonl.gz"])
async def test_recorded_traces_replay_at_their_speed(mock: Any, name: str, speed: float) -> None:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    plan = LoadPlan(
        Target(mock.url),
        WorkloadSpec(model="m", trace_file=path),
        Arrivals("trace"),
        speed=speed,
        duration_s=2.0,
    )
    report = await run_plan(plan, quiet=True)
    due = [row for row in read_trace(path) if row.t_s / speed < 2.0]
    assert report["requests"]["measured"] == report["requests"]["ok"] == len(due) > 0
    counted = report["models"]["m"]["tokens_in"]
    assert counted == pytest.approx(
        sum(row.tokens_in for row in due), rel=0.15
    )  # the mock counts 5 bytes as a token


@pytest.mark.slow
def test_ctrl_c_still_writes_the_reports(mock: Any, tmp_path: Path) -> None:
    files = {kind: tmp_path / f"r.{kind}" for kind in ("json", "csv", "html")}
    words = [word for kind, path in files.items() for word in (f"--{kind}", str(path))]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "loadtest",
            "run",
            "--base-url",
            mock.url,
            "--rate",
            "100",
            "--duration",
            "60",
            *words,
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(files["csv"].exists, "the first rows")
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=180)
    assert process.returncode == 130, err
    assert "INTERRUPTED" in out
    report = orjson.loads(files["json"].read_bytes())
    assert report["interrupted"] and report["requests"]["ok"] > 10
    assert files["html"].stat().st_size > 1_000_000
    assert len(files["csv"].read_text().splitlines()) == 1 + report["requests"]["measured"]
