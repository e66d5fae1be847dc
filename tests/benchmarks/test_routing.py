"""The benchmark's measures are RouteLLM's, and it runs on any file of the same schema."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmarks.routing.__main__ as routing
from benchmarks.routing import data as routing_data
from benchmarks.routing import metrics


def test_a_perfect_score_recovers_at_once_and_an_inverse_one_at_the_end() -> None:
    # Half the requests need the large engine.
    quality = np.array([[0.0, 1.0], [1.0, 1.0]] * 50)
    needed = quality[:, 1] - quality[:, 0]
    assert metrics.apgr(needed, quality) == pytest.approx(0.75)
    assert metrics.apgr(-needed, quality) == pytest.approx(0.25)
    assert metrics.cpt(needed, quality, 0.5) == pytest.approx(0.25)
    assert metrics.cpt(-needed, quality, 0.5) == pytest.approx(0.75)


def test_a_score_that_says_nothing_is_worth_chance_whatever_the_order() -> None:
    quality = np.array([[0.0, 1.0]] * 50 + [[1.0, 1.0]] * 50)
    assert metrics.apgr(np.zeros(100), quality) == pytest.approx(0.5)
    assert metrics.cpt(np.zeros(100), quality, 0.8) == pytest.approx(0.8)


def test_without_a_gap_nothing_can_be_recovered() -> None:
    assert np.isnan(metrics.apgr(np.arange(3.0), np.ones((3, 2))))


def test_it_says_what_is_missing_and_runs_on_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    with gzip.open(tmp_path / "router_gsm8k_routellm.jsonl.gz", "wt") as file:
        for n in range(240):
            models = {
                name: {"correct": bool(rng.random() < chance)}
                for name, chance in (("mixtral-8x7b-instruct", 0.5), ("gpt-4-1106-preview", 0.9))
            }
            file.write(json.dumps({"id": n, "prompt": f"What is {n} + 1?", "models": models}) + "\n")

    def embedded(prompts: Sequence[str], cache: Path, kept_as: Any) -> Any:
        vectors = rng.normal(size=(len(prompts), 384)).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    monkeypatch.setattr(routing_data, "embedded", embedded)
    out = tmp_path / "out.json"
    command = ["routing", "--data", str(tmp_path), "--seeds", "1", "--sets", "mmlu,gsm8k", "--json", str(out)]
    monkeypatch.setattr("sys.argv", command)
    routing.main()
    assert "mmlu: skipped" in capsys.readouterr().out
    policies = json.loads(out.read_text())["sets"]["gsm8k"]["policies"]
    assert policies["oracle"]["apgr"] > policies["random"]["apgr"]
    assert policies["oracle"]["regret"] == 0.0
    assert {"learned, bandit feedback", "learned, bootstrap on half", "novelty (few_shot)"} <= set(policies)
