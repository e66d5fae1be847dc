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
from benchmarks.routing.stream import guarded_share


@pytest.mark.slow
def test_any_file_of_the_schema_is_judged_beside_the_baselines_and_the_rest_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)

    def written(name: str, rows: list[dict[str, Any]]) -> None:
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)

    graded = [
        {
            "question": f"What is {n} + 1?",
            "subject": f"s{n % 10}",
            "marks": {"a": -0.5 + n % 2, "b": n % 3 / 2},
        }
        for n in range(240)
    ]
    written("anything", graded)
    written("labels", [{"text": "a", "intent": "b"}])
    written("answers", [{"prompt": "a", "outputs": {"a": "one", "b": "two"}}])

    def embedded(prompts: Sequence[str], cache: Path, kept_as: Any) -> Any:
        vectors = rng.normal(size=(len(prompts), 384)).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    monkeypatch.setattr(routing_data, "embedded", embedded)
    out = tmp_path / "out.json"
    command = ["routing", "--data", str(tmp_path), "--seeds", "2", "--outcomes", "300", "--json", str(out)]
    command += ["--baselines", "kNN 20,ridge,matrix factorisation", "--beside", "numpy,ridge"]
    monkeypatch.setattr("sys.argv", [*command, "--feedback", "static,bandit,bootstrap,full"])
    routing.main()
    told = json.loads(out.read_text())
    assert set(told["sets"]) == {"anything"}
    assert told["sets"]["anything"]["cut"] == 120
    policies = told["sets"]["anything"]["policies"]
    assert policies["oracle"]["regret"] == 0.0
    assert policies["always large"]["regret_share"] == 1.0
    for feedback in ("static", "bandit", "bootstrap", "full"):
        for name in ("kNN 20", "ridge", "matrix factorisation", "ours", "ours, ridge", "guarded kNN"):
            assert 0.0 <= policies[f"{feedback}: {name}"]["large"] <= 1.0
    assert set(told["sets"]["anything"]["transfer"]) >= {"ours", "kNN 20", "prompt length"}
    assert policies["best constant"]["regret"] <= policies["always large"]["regret"]
    assert set(told["sets"]["anything"]["ahead"]) >= {"bandit: ours ahead of guarded kNN"}
    assert {"bandit: ours ahead of ours, numpy"} <= set(told["sets"]["anything"]["ahead"])
    assert all(told["cost"][learner]["outcomes"] == 300 for learner in ("numpy", "ridge"))
    printed = capsys.readouterr().out
    assert "120 scores cut" in printed
    assert "| anything | bandit | " in printed


def test_the_guarded_baseline_leaves_the_large_engine_only_on_clear_evidence() -> None:
    close, surely = np.array([0.85, 0.85]), np.array([0.01, 0.01])
    assert guarded_share(close, surely, 0.5) > 0.9
    assert guarded_share(close, np.array([0.5, 0.5]), 0.5) < 0.1
    assert guarded_share(np.array([0.3, 0.9]), surely, 0.5) < 0.1


def test_ahead_is_the_sum_of_paired_differences_with_their_standard_error() -> None:
    worth = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    found = routing.ahead(worth, np.array([1, 0, 1]), np.array([1, 1, 1]))
    assert found["ahead"] == pytest.approx(1.0)
    assert found["standard_error"] == pytest.approx(1.0)


def test_a_file_with_many_engines_has_a_second_pair_of_others(tmp_path: Path) -> None:
    scores = {name: 0.1 * n for n, name in enumerate("abcdefgh")}
    for name, known in (("many", scores), ("few", {"a": 0.0, "b": 1.0})):
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt") as file:
            file.write(json.dumps({"prompt": "?", "scores": known}) + "\n")
    assert routing_data.names(tmp_path) == ["few", "many", "many:2"]
    found = [{"prompt": "?", "scores": scores}]
    first = routing_data._pair(found, "scores")
    second = routing_data._chosen_pair(found, "scores", set(first))
    assert (first, second) == (("f", "h"), ("e", "g"))
