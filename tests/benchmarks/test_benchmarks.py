"""What all benchmarks have in common: a table of them, recorded data that may be absent, vectors that are kept."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_the_table_names_every_question_and_no_command_that_is_not_there() -> None:
    commands = set(re.findall(r"`python -m (benchmarks\.[\w.]+)", (BENCHMARKS / "README.md").read_text()))
    assert {f"benchmarks.{path.parent.name}" for path in BENCHMARKS.glob("*/__main__.py")} <= commands
    assert all(importlib.util.find_spec(command) for command in commands)


@pytest.mark.parametrize(
    "name",
    [
        "effect.__main__",
        "kv_plan.__main__",
        "off_policy.__main__",
        "routing.__main__",
        "student.__main__",
        "templates.__main__",
        "helpfulness.recorded",
    ],
)
def test_without_recorded_data_a_benchmark_says_so_and_ends_well(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [name, "--data", str(tmp_path)])
    importlib.import_module(f"benchmarks.{name}").main()
    assert re.search(
        r"skipped: (\w+\.jsonl\.gz is not|no file that fits is) in .* \(say where with --data\)",
        capsys.readouterr().out,
    )
