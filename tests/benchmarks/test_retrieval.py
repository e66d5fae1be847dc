"""The benchmark runs, and would notice an index that finds the wrong things."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import benchmarks.retrieval.__main__ as retrieval
from benchmarks.retrieval import data
from benchmarks.vectors import exact_nearest


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


def test_an_index_that_answers_at_random_does_not_pass_for_a_good_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = data.clustered(500, 20, dimensions=16)
    chance = np.random.default_rng(1)
    monkeypatch.setattr(
        retrieval.TenantIndex,
        "nearest",
        lambda self, query, k: [(int(i), 0.9) for i in chance.integers(500, size=k)],
    )
    figures = retrieval.measured("clustered", made, [])
    assert figures.chosen.recall_at_10 < 0.2
    assert figures.chosen.found_nearest < 0.2


def test_the_truth_is_what_sorting_everything_gives() -> None:
    made = data.clustered(300, 5, dimensions=12)
    truth = exact_nearest(made.vectors, made.queries, 10)
    for query, ids in zip(made.queries, truth, strict=True):
        assert set(ids.tolist()) == set(np.argsort(-(made.vectors @ query))[:10].tolist())


def test_a_question_is_taken_once_and_in_the_same_order_whatever_the_files_order(
    tmp_path: Path,
) -> None:
    rows = {
        "bank_alpaca_open.jsonl.gz": [
            {"instruction": "Name it.", "input": "a cat"},
            {"instruction": "Add", "input": ""},
        ],
        "sim_qqp_open.jsonl.gz": [{"a": "Who?", "b": "Add"}],
        "bank_nq_dev.jsonl.gz": [{"prompt": "who?"}],
        "sim_banking77.jsonl.gz": [{"text": "My card!"}, {"text": "My card!"}],
    }

    def write(backwards: bool) -> list[str]:
        for name, lines in rows.items():
            with gzip.open(tmp_path / name, "wt") as file:
                file.writelines(json.dumps(line) + "\n" for line in (reversed(lines) if backwards else lines))
        return list(data.questions(tmp_path))

    assert sorted(write(False)) == ["Add", "My card!", "Name it.\na cat", "Who?", "who?"]
    assert write(False) == write(True)


def test_without_recorded_files_the_real_vectors_are_skipped_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert retrieval.main(["--kinds", "real", "--data", str(tmp_path)]) == []
    assert "skipped: bank_alpaca_open.jsonl.gz is not in" in capsys.readouterr().out
