"""The benchmark of off-policy estimates runs on any file of the schema, and would notice an interval that misses."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

import benchmarks.off_policy.__main__ as benchmark


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file, small, large = benchmark.FILES["gsm8k"]
    rng = random.Random(0)
    with gzip.open(tmp_path / file, "wt") as out:
        for _ in range(200):
            prompt = "word " * rng.randint(1, 40)
            models = {small: {"correct": rng.random() < 0.5}, large: {"correct": rng.random() < 0.9}}
            out.write(json.dumps({"prompt": prompt, "models": models}) + "\n")
    return tmp_path


def test_coverage_is_measured_against_the_truth_of_the_file(data: Path) -> None:
    file, small, large = benchmark.FILES["gsm8k"]
    recorded = benchmark.read("gsm8k", data / file, small, large)
    rows = benchmark.measure(recorded, "leaning", 0.5, 150, 12, 100)
    assert {row["target"] for row in rows} == {"small", "large", "longest", "mixed"}
    assert rows[0]["truth"] == pytest.approx(recorded.quality[:, 0].mean())
    for row in rows:
        assert all(row[method]["covers"] > 0.6 for method in ("ips", "snips", "dr"))
        assert all(0 < row[method]["width"] <= 1 for method in ("ips", "snips", "dr"))
