"""The benchmark of requests beside a document that is ingested: that it runs, not what it finds."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from benchmarks.ingest import __main__ as ingest
from benchmarks.ingest import growing
from router.embedding import model as embedding_model
from tests.flow.line import MODELS

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec(embedding_model.PACKAGE) is None, reason="the weights package is not installed"
)


@needs_weights
@pytest.mark.parametrize("how", [[], ["--gateway"]], ids=["embedder", "gateway"])
def test_spells_with_and_without_ingestion(
    how: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "figures.json"
    size = ["--chunks", "6", "--spell", "3", "--tokens", "60", "--rate", "4", "--deadline-ms", "60000"]
    monkeypatch.setattr("sys.argv", ["ingest", *size, *how, "--cache", str(MODELS), "--json", str(out)])
    ingest.main()
    figures = json.loads(out.read_text())
    assert figures["chunks"] == 6
    assert figures["with_ingestion"]["requests"] > 0 and figures["without_ingestion"]["requests"] > 0


def test_one_more_text_of_collections_of_several_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "figures.json"
    size = ["--sizes", "20", "70", "--dimensions", "8", "--more", "3"]
    monkeypatch.setattr("sys.argv", ["growing", *size, "--json", str(out)])
    growing.main()
    assert [row["texts"] for row in json.loads(out.read_text())] == [20, 70]
