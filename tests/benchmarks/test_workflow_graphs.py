"""The benchmark of graphs measures what it says."""

import json
from pathlib import Path

import pytest

from benchmarks.workflow_graphs.__main__ import ASKED_MS, definitions, main


def test_figures_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--rounds", "1", "--json", str(tmp_path / "figures.json")])
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["cpu_ms"].keys() == definitions().keys()
    assert all(of[what] > 0 for of in figures["cpu_ms"].values() for what in ASKED_MS)
    assert "advanced RAG, twice" in capsys.readouterr().out
