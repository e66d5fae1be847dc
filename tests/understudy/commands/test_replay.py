"""The command plans without spending, runs within its budget, says what it cost, and takes a run back."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from store.jobs.replay_records import ReplayBudget
from store.sqlite.database import Database
from tests.learning.replay.bank import WORLD, bank_of, facts, settings, wrong
from understudy.__main__ import main
from understudy.commands.replay_tables import plan_table

ROOT = Path(__file__).parents[3]


def told(*words: str) -> Result:
    return CliRunner().invoke(main, ["learn", "replay", *words])


def filled(folder: Path) -> Path:
    """A data folder with five wrong examples, and the configuration file of its gateway."""

    async def fill() -> None:
        async with bank_of(folder / "data", [(f, wrong(f)) for f in facts(5)]):
            pass

    asyncio.run(fill())
    data = settings(folder / "data")
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(data))
    return file


def test_the_whole_of_it_from_a_plan_to_taking_it_back(tmp_path: Path) -> None:
    config = str(filled(tmp_path))
    data = str(tmp_path / "data")
    planned = told("--config", config, "--plan")
    assert planned.exit_code == 0, planned.output
    assert planned.stdout.count("distil") == 5 + 1
    assert "budget: 1 dollars" in planned.stdout
    told_json = json.loads(told("--config", config, "--plan", "--json", "--budget-usd", "0.05").stdout)
    assert told_json["budget"]["usd"] == 0.05
    assert told_json["expected"]["usd"] <= 0.05
    assert told("list", "--data", data).stderr == "nothing was replayed yet\n", "a plan is not a run"
    few = told("--config", config, "--budget-usd", "0.012")
    assert few.exit_code == 0, few.output
    first = json.loads(told("list", "--data", data, "--json").stdout)[0]
    assert first["spent"]["usd"] <= 0.012
    ran = told("--config", config, "--json")
    assert ran.exit_code == 0, ran.output
    run = json.loads(ran.stdout.splitlines()[-1])
    shown = json.loads(told("show", "--data", data, str(run["run"]), "--json").stdout)
    assert shown["steps"]
    assert abs(sum(line["usd"] for line in shown["spend"]) - shown["spent"]["usd"]) < 1e-12
    assert {line["purpose"] for line in shown["spend"]} == {"answer", "verdict"}
    text = told("show", "--data", data, str(run["run"]))
    assert "replaced" in text.stdout
    undone = told("undo", "--data", data, str(run["run"]))
    assert undone.exit_code == 0
    assert f"{run['results']['replaced']} answers restored" in undone.stdout
    assert "reverted" in told("list", "--data", data).stdout


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_and_pays_for_nothing_twice(tmp_path: Path) -> None:
    file = filled(tmp_path)
    data = yaml.safe_load(file.read_text())
    for name in ("large", "judge"):
        # Slow enough to be killed between any two commits.
        data["engines"][name] |= {"pace": 0.5, "ttft_ms": 60, "token_ms": 0}
    file.write_text(yaml.safe_dump(data))
    db = Database.open(tmp_path / "data" / "understudy.db")

    def paid() -> int:
        (count,) = db.read().execute("SELECT count(*) FROM replay_asks WHERE state = 'paid'").fetchone()
        return int(count)

    child = subprocess.Popen(
        [sys.executable, "-m", "understudy", "learn", "replay", "--config", str(file)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while paid() < 4:
        assert child.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)
    child.kill()
    child.wait()
    before = paid()
    again = told("--config", str(file), "--resume", "--json")
    assert again.exit_code == 0, again.output
    run = json.loads(again.stdout.splitlines()[-1])
    assert (run["state"], run["steps_by_state"]) == ("done", {"done": 5})
    assert paid() > before
    twice = db.read().execute(
        "SELECT key FROM replay_asks WHERE state = 'paid' GROUP BY step_id, key HAVING count(*) > 1"
    )
    assert twice.fetchall() == []
    (unknown,) = db.read().execute("SELECT count(*) FROM replay_asks WHERE state = 'unknown'").fetchone()
    assert unknown <= 4, "what four workers had under way"
    assert (run["spent"]["unknown_usd"] > 0) == (unknown > 0), "and it is said"
    answers = db.read().execute("SELECT question, answer FROM examples").fetchall()
    assert all(WORLD.grade(question, answer) == 1.0 for question, answer in answers)
    db.close()


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    config = str(filled(tmp_path))
    data = str(tmp_path / "data")
    for words, said in (
        (("--plan",), "--config FILE is needed"),
        (("--config", config, "--resume"), "no run is left unfinished"),
        (("--config", config, "--tenant", "nobody"), "no key belongs to a tenant 'nobody'"),
        (("show", "--data", data, "9"), "there is no run 9"),
        (("undo", "--data", data, "9"), "there is no run 9"),
        (("undo", "--data", data), "name a run"),
        (("stop", "--data", data, "9"), "no run 9"),
    ):
        found = told(*words)
        assert said in found.output, words


def test_a_plan_with_nothing_in_it_says_so() -> None:
    assert "nothing to replay" in plan_table([], ReplayBudget())
