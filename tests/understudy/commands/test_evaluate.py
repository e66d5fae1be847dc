"""`understudy learn evaluate`: reads a gateway's log and says what other policies would have brought."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from router.choosing.bandit import Lesson, Option, Scene
from router.choosing.bandit_vw import VowpalBandit
from store import Store
from tests.learning.training.worlds import met
from understudy.commands.evaluate import evaluate


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(evaluate, ["--data", str(data), *arguments])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """120 judged requests of one tenant: small is right half of the time, with examples nine times of ten."""
    store, rng = Store.open(tmp_path), random.Random(1)
    for number in range(120):
        chosen = rng.choices((0, 1, 2), (0.3, 0.3, 0.4))[0]
        quality = float(rng.random() < (0.5, 0.9, 1.0)[chosen])
        row = met(
            number,
            chosen,
            {"quality": quality, "probability": 1.0},
            at_s=time.time() - 3600,
            vector=np.eye(384, dtype=np.float32)[number % 384],
        )
        store.decisions.choices.record(row.choice).result(30)
        store.outcomes.note_many(row.outcomes).result(30)
    store.close()
    return tmp_path


def test_the_table_shows_every_policy_that_applies_and_the_file_holds_the_figures(data: Path) -> None:
    found = run(data, "--json", str(data / "out.json"), "--preferences", "0,1")
    assert found.exit_code == 0, found.output
    for name in ("logged", "random", "always:small", "always:large", "expected", "few_shot:0.8,3"):
        assert name in found.stdout
    told = json.loads((data / "out.json").read_text())
    assert told["requests"] == told["judged"] == 120
    small = next(point for point in told["points"] if point["policy"] == "always:small")
    assert small["quality"]["snips"]["low"] <= 0.5 <= small["quality"]["snips"]["high"]


def test_only_the_policies_asked_for_are_evaluated(data: Path) -> None:
    found = run(data, "--policy", "always:large", "--policy", "few_shot:0.9,1", "--method", "snips")
    assert found.exit_code == 0
    assert "always:large" in found.stdout and "few_shot:0.9,1" in found.stdout
    assert "logged " not in found.stdout


def test_an_artifact_of_the_bandit_is_evaluated_from_the_log(data: Path) -> None:
    bandit = VowpalBandit()
    scene = Scene(None, {}, [Option("small", False, {}), Option("large", False, {})])
    bandit.learn([Lesson(scene, {0: 0.2, 1: 1.0})])
    store = Store.open(data)
    ours = store.artifacts.publish("bandit", "a1", "gpt-4o", bandit.save(), metrics={}, note="")
    theirs = store.artifacts.publish("bandit", "b2", "gpt-4o", bandit.save(), metrics={}, note="")
    store.close()
    found = run(data, "--policy", "bandit:ACTIVE", "--preferences", "1")
    assert found.exit_code == 0, found.output
    assert f"bandit:{ours.id}" in found.stdout
    refused = run(data, "--policy", f"bandit:{theirs.id}")
    assert refused.exit_code == 2 and "no such version" in refused.stderr


def test_a_bandit_that_cannot_be_used_keeps_nobody_from_the_other_policies(data: Path) -> None:
    store = Store.open(data)
    store.artifacts.publish("bandit", "a1", "gpt-4o", b"not a bandit", metrics={}, note="")
    store.close()
    found = run(data)
    assert found.exit_code == 0 and "always:small" in found.stdout and "left out" in found.stderr
    assert run(data, "--policy", "bandit:ACTIVE").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--policy", "best"), "names no policy"),
        (("--policy", "always:medium"), "large, small"),
        (("--policy", "bandit:77"), "no such version"),
        (("--policy", "bandit:x"), "no such version"),
        (("--preferences", "0,2"), "0 to 1"),
        (("--preferences", "cheap"), "0 to 1"),
        (("--since", "yesterday"), "7d"),
        (("--since", "0.5h"), "empty"),
        (("--model", "o3"), "no decision"),
        (("--tenant", "nobody"), "nobody"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    data: Path, arguments: tuple[str, ...], said: str
) -> None:
    found = run(data, *arguments)
    assert found.exit_code == 2
    assert said in found.stderr


def test_since_takes_a_period_or_a_date(data: Path) -> None:
    for since in ("2h", "1.5d", "2020-01-31", "2020-01-31T10:00:00+02:00"):
        found = run(data, "--since", since, "--policy", "logged")
        assert found.exit_code == 0 and "120 requests" in found.stdout


def test_more_than_one_model_has_to_be_named(data: Path) -> None:
    store = Store.open(data)
    store.decisions.choices.record(met(900, 0, model="o3").choice).result(30)
    store.close()
    found = run(data)
    assert found.exit_code == 2 and "--model o3" in found.stderr
    assert run(data, "--model", "gpt-4o", "--policy", "logged").exit_code == 0


def test_the_latest_requests_are_taken_when_there_are_too_many(data: Path) -> None:
    found = run(data, "--limit", "50", "--policy", "logged")
    assert "50 requests" in found.stdout


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    assert run(tmp_path).exit_code == 2
