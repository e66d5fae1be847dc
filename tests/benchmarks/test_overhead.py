"""The benchmark runs, checks what it is told, says which goals are missed, and would notice mixed streams."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.overhead import goals


@pytest.mark.slow
def test_a_quick_run_measures_every_way_for_a_request_to_go(tmp_path: Path) -> None:
    figures_file, table_file = tmp_path / "figures.json", tmp_path / "table.md"
    command = [sys.executable, "-m", "benchmarks.overhead", "--quick", "--json", str(figures_file)]
    only = ("requests", "paced", "first_minute", "books", "texts", "runs", "crowd")
    command += [*(f"--only={part}" for part in only), "--markdown", str(table_file)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert ran.returncode == 0, ran.stderr
    figures = json.loads(figures_file.read_text())
    requests = figures["requests"]
    ways = {"direct", "relay", "passthrough", "exact", "no_embedding", "warm", "cold", "embedding"}
    assert set(requests) == ways
    assert all(found["cpu_ms"] > 0 for rounds in requests.values() for found in rounds)
    assert requests["exact"][0]["hit_share"] == 1
    assert requests["no_embedding"][0]["hit_share"] == requests["warm"][0]["hit_share"] == 0
    assert all(figures["texts"][way][0]["offloaded_share"] > 0 for way in ("no_texts", "all_texts"))
    assert figures["runs"]["steps"][0]["cpu_ms"] > 0 and figures["runs"]["gets"][0]["gets"] == 1000
    assert set(figures["crowd"]) == {"relay", "passthrough"}
    assert figures["paced"]["exact"][0]["hit_share"] == 1 and figures["paced"]["relay"][0]["p99_ms"] > 0
    assert 0 <= figures["first_minute"]["cold"][0]["embedded_share"] <= 1
    assert figures["books"]["charged_nano"] > 0
    assert "gateway, passing through" in table_file.read_text()
    assert "gateway, passing through" in ran.stdout


@pytest.mark.slow
def test_a_key_with_limits_is_measured_beside_one_without(tmp_path: Path) -> None:
    figures_file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.overhead", "--quick", "--json", str(figures_file)]
    command += ["--only", "governed"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert ran.returncode == 0, ran.stderr
    ways = ("through", "key", "governed", "limits", "governed_model", "limits_two_workers")
    assert set(json.loads(figures_file.read_text())["governed"]) == set(ways)
    assert "a key and a tenant with limits of every kind" in ran.stdout


@pytest.mark.slow
def test_a_student_is_taught_and_answers_what_is_measured(tmp_path: Path) -> None:
    figures_file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.overhead", "--quick", "--json", str(figures_file)]
    command += ["--only", "student"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert ran.returncode == 0, ran.stderr
    shares = {
        way: rounds[0]["student_share"]
        for way, rounds in json.loads(figures_file.read_text())["student"].items()
    }
    assert shares["through"] == shares["teacher"] == 0
    assert shares["student"] > 0 and shares["student_streams"] > 0
    assert "the student answers" in ran.stdout


def test_the_page_holds_the_table_of_the_file() -> None:
    told = goals.page(json.loads(goals.FILE.read_text(encoding="utf-8")))
    assert f"<!-- overhead -->\n{told}\n<!-- end -->" in goals.PAGE.read_text(encoding="utf-8")
