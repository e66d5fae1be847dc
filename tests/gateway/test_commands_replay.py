"""The command plans without spending, runs within its budget, says what it cost, and takes a run back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import yaml
from click.testing import CliRunner, Result

from gateway.__main__ import main
from gateway.commands_replay_show import plan_table
from store.replay_records import ReplayBudget
from tests.gateway.replay_bank import bank_of, facts, settings, wrong


def told(*words: str) -> Result:
    return CliRunner().invoke(main, ["replay", *words])


def filled(folder: Path) -> Path:
    """A data folder with five wrong examples, and the configuration file of its gateway."""

    async def fill() -> None:
        async with bank_of(folder / "data", [(f, wrong(f)) for f in facts(5)]):
            pass

    asyncio.run(fill())
    data = settings(folder / "data", expand={"enabled": False})
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
    assert told("list", "--data", data).stdout == "nothing was replayed yet\n", "a plan is not a run"
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
    assert "undone" in told("list", "--data", data).stdout


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
        (("stop", "--data", data, "9"), "does not go on"),
    ):
        found = told(*words)
        assert said in found.output, words


def test_a_plan_with_nothing_in_it_says_so() -> None:
    assert "nothing to replay" in plan_table([], ReplayBudget())
