"""The benchmark of applications: the real executor and line over simulated engines, in virtual time."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import benchmarks.applications.__main__ as main
from benchmarks.applications import over_sockets


def test_the_benchmark_prints_its_figures_beside_the_papers_and_that_engines_are_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "figures.json"
    monkeypatch.setattr(sys, "argv", ["applications", "--only", "map-reduce,roles", "--json", str(written)])
    main.main()
    said = capsys.readouterr().out
    assert "Engines are simulated" in said and "a 27 ms, b 0.55 us, c 160 us, KV 61,000" in said
    assert "[2.37x]" in said and "[11.7x]" in said and "Engines of today" in said
    result = json.loads(written.read_text())
    assert result["simulated"]["2024"]["kv_tokens"] == 61_000
    found = {one["what"]: one for one in result["figures"]["2024"]}
    assert all(one["reached"] for one in found.values()), found
    # Of today's engines one thing is promised: never to be slower than the client.
    assert {one["promised"] for one in result["figures"]["today"]} == {None, 1.0}
    assert all(one["reached"] for one in result["figures"]["today"])


def test_steps_over_sockets_stand_beside_plain_calls_and_the_engine_itself() -> None:
    rows = list(over_sockets.of_steps(rounds=1, runs=1))
    assert rows[0].what.endswith("straight at the engine") and rows[0].goal is None
    assert [row.goal for row in rows if row.goal] == [1.1, 1.1, 1.3] * 2
    assert all(row.now > 0 for row in rows)
