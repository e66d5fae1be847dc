"""Peers are data, are started for real, are left out by name, and never stay behind."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.gateways import table
from benchmarks.gateways.__main__ import command
from benchmarks.gateways.adapter import Peer
from benchmarks.gateways.builtin import BUILT_IN
from benchmarks.gateways.contest import contest
from loadtest.arrivals import Arrivals
from loadtest.plan import LoadPlan, Target, WorkloadSpec

RELAY = next(peer for peer in BUILT_IN if peer.name == "relay")


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


def test_the_command_names_what_it_does_not_know() -> None:
    asked = CliRunner()
    assert "known are understudy, nginx, relay, litellm" in asked.invoke(command, ["--only", "kong"]).output
    assert "NAME=PATH" in asked.invoke(command, ["--find", "kong=/x"]).output
