"""The benchmark runs, and would notice an index that finds the wrong things."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_a_quick_run_gives_figures_that_can_be(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.retrieval", "--quick", "--json", str(tmp_path / "f.json")]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    (one,) = json.loads((tmp_path / "f.json").read_text())["figures"]
    assert (one["kind"], one["size"], one["queries"]) == ("clustered", 1000, 50)
    assert 0.9 < one["chosen"]["recall_at_10"] <= 1
    assert one["others"][0]["recall_at_10"] <= one["chosen"]["recall_at_10"]
    assert 0 < one["chosen"]["cpu_ms_p50"] <= one["chosen"]["cpu_ms_p99"]
    assert one["snapshot_bytes_each"] > 2 * 384
    assert "| clustered | 1,000 |" in ran.stdout
