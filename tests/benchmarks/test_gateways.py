"""Peers are data, are started for real, are left out by name, and never stay behind."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.gateways import table
from benchmarks.gateways.__main__ import command
from benchmarks.gateways.adapter import Peer, filled, read_peer
from benchmarks.gateways.builtin import BUILT_IN
from benchmarks.gateways.contest import contest
from benchmarks.gateways.process import running
from benchmarks.processes import NotReady
from loadtest.arrivals import Arrivals
from loadtest.errors import LoadError
from loadtest.plan import LoadPlan, Target, WorkloadSpec

RELAY = next(peer for peer in BUILT_IN if peer.name == "relay")
LISTENER = (
    "import http.server,os,sys\n"
    "class H(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self): self.send_response(200); self.end_headers()\n"
    "http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n"
)


def plan() -> LoadPlan:
    return LoadPlan(
        Target("http://127.0.0.1"),
        WorkloadSpec(model="mock-small"),
        Arrivals("constant", 50.0),
        duration_s=0.5,
    )


async def run(peers: list[Peer], **more: Any) -> dict[str, Any]:
    given = {"blocks": 1, "saturate": 0, "mock_options": (), "slo": None, "max_lateness_ms": 1000.0} | more
    return await contest(plan(), peers, say=lambda line: None, **given)


@pytest.mark.slow
async def test_the_bare_relay_passes_streams_on_and_what_is_not_installed_is_named() -> None:
    absent = Peer("absent", "no-such-program-anywhere", ("no-such-program-anywhere",))
    result = await run([RELAY, absent])
    assert [line["name"] for line in result["peers"]] == ["direct", "relay"]
    assert all(line["failed_share"] == 0 and line["ttft_p50_ms"] for line in result["peers"])
    assert result["left_out"] == {"absent": "not installed"}
    shown = table.text(result)
    assert "left out: absent: not installed" in shown and "| relay " in shown


async def test_nginx_as_its_docs_recommend() -> None:
    if not shutil.which("nginx"):
        pytest.skip("nginx is not installed")
    result = await run([peer for peer in BUILT_IN if peer.name == "nginx"])
    assert result["left_out"] == {} and result["peers"][1]["failed_share"] == 0


@pytest.mark.slow
async def test_a_peer_that_does_not_start_is_left_out_with_its_last_words() -> None:
    broken = Peer("broken", sys.executable, (sys.executable, "-c", "raise SystemExit('no licence file')"))
    result = await run([RELAY, broken])
    assert "no licence file" in result["left_out"]["broken"]
    with pytest.raises(LoadError, match="no peer could be started"):
        await run([broken])


def test_a_peer_is_filled_in_started_and_stopped_with_its_children(tmp_path: Path) -> None:
    peer = Peer(
        "own",
        sys.executable,
        (sys.executable, "-c", LISTENER, "{port}"),
        config="upstream={upstream} {other} key={secret}",
        env=(("WHERE", "{upstream}"),),
    )
    with running(peer, "http://127.0.0.1:9", "m", tmp_path) as child:
        assert (
            tmp_path / "peer.conf"
        ).read_text() == f"upstream=http://127.0.0.1:9 {{other}} key={child.values['secret']}"
        pid = child._process.pid
        assert child.cpu_s() is None or child.cpu_s() >= 0
        assert not child.ended
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
def test_a_peer_that_never_gets_ready_is_stopped_too(tmp_path: Path) -> None:
    note = str(tmp_path / "pid")
    script = f"import os, time; open({note!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    asleep = Peer("asleep", sys.executable, (sys.executable, "-c", script), ready_within_s=4.0)
    with (
        pytest.raises(NotReady, match="asleep was not ready within 4 s"),
        running(asleep, "http://x", "m", tmp_path),
    ):
        raise AssertionError("it cannot be ready")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_an_adapter_file_becomes_a_peer(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\ncommand: [mine, --port, '{port}']\nheaders: {authorization: Bearer x}\nenv: {N: 1}\nready_within_s: 5\n"
    )
    assert read_peer(path) == Peer(
        "mine",
        "mine",
        ("mine", "--port", "{port}"),
        headers=(("authorization", "Bearer x"),),
        env=(("N", "1"),),
        ready_within_s=5,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "cannot read"),
        ("just text", "must be a mapping"),
        ("name: x\n", "needs a name and a command"),
        ("name: x\ncommand: run\n", "needs a name and a command"),
        ("name: x\ncommand: [a]\ncolour: red\n", "unknown keys colour"),
        ("name: x\ncommand: [a]\nheaders: [1]\n", "headers must be a mapping"),
    ],
)
def test_a_bad_adapter_says_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(LoadError, match=said):
        read_peer(path)


def test_braces_of_a_configuration_survive() -> None:
    assert filled("a { b {port}; ${x} }", {"port": "1"}) == "a { b 1; ${x} }"


def test_the_command_names_what_it_does_not_know() -> None:
    asked = CliRunner()
    assert "known are understudy, nginx, relay, litellm" in asked.invoke(command, ["--only", "kong"]).output
    assert "NAME=PATH" in asked.invoke(command, ["--find", "kong=/x"]).output


def test_the_relay_runs_in_this_python_and_is_no_program_on_path() -> None:
    assert RELAY.found_at() is None
