"""`understudy runs`: what a person sees of runs, without a word of what they say, and how one is cancelled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from store import Store
from store.workflows.records import (
    Failure,
    NewRun,
    NewStep,
    NewVariable,
    RunChange,
    RunEnd,
    StepProgress,
    VariableEnd,
)
from tests.admin.runs_kept import CLAIM
from understudy.commands.runs import runs


@contextmanager
def opened(data: Path) -> Iterator[Store]:
    store = Store.open(data)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Of a tenant with a key a run that failed and one that goes on, of another one that goes on."""
    with opened(tmp_path) as store:
        acme = store.keys.create("acme", "laptop")[0].tenant
        other = store.keys.create("umbrella", "laptop")[0].tenant
        steps = [
            NewStep("s0", "plan", "m", b"canary", writes={"plan": "var_p"}),
            NewStep("s1", "code", "m", b"canary", {"plan": "var_p"}, {"code": "var_c"}),
        ]
        variables = [NewVariable("var_p", "plan", step="s0"), NewVariable("var_c", "code", step="s1")]
        store.runs.begin(CLAIM, NewRun("run_1", acme, 100.0, app="game"), steps, variables)
        why = Failure("step_failed", "canary", 400, ("code",))
        done = StepProgress(
            "done",
            1,
            "latency",
            engine="large",
            replica="r1",
            ready_at_s=100.0,
            queued_at_s=100.5,
            ended_at_s=102.0,
            prompt_tokens=10,
            cached_tokens=4,
            completion_tokens=5,
            cost_usd=0.25,
        )
        change = RunChange(
            "run_1",
            103.0,
            {"s0": done, "s1": StepProgress("failed", 2, "latency", failure=why)},
            variables=[
                VariableEnd("var_p", "ready", "canary"),
                VariableEnd("var_c", "failed", failure=why),
            ],
            end=RunEnd("failed", 103.0, why, ("s0", "s1"), 1),
        )
        store.runs.save(CLAIM, [change])
        store.runs.begin(CLAIM, NewRun("run_2", acme, 200.0), [NewStep("s0")], [])
        store.runs.begin(CLAIM, NewRun("run_3", other, 300.0), [], []).result(30)
    return tmp_path


def ran(data: Path, *words: str) -> Result:
    return CliRunner().invoke(runs, [words[0], "--data", str(data), *words[1:]])


def told(data: Path, *words: str) -> Any:
    return json.loads(ran(data, *words, "--json").stdout)


def test_runs_are_listed_newest_first_and_chosen(data: Path) -> None:
    lines = [line.split() for line in ran(data, "list").stdout.splitlines()]
    assert lines[0][:4] == ["ID", "STATE", "DONE", "STEPS"]
    assert [line[:4] for line in lines[1:]] == [
        ["run_3", "running", "0", "0"],
        ["run_2", "running", "0", "1"],
        ["run_1", "failed", "1", "2"],
    ]
    assert lines[3][-3:] == ["game", "acme", "step_failed"] and "$0.250000" in lines[3]
    assert [each["id"] for each in told(data, "list", "--tenant", "acme")] == ["run_2", "run_1"]
    assert [each["id"] for each in told(data, "list", "--app", "game")] == ["run_1"]
    assert [each["id"] for each in told(data, "list", "--state", "running", "--limit", "1")] == ["run_3"]
    assert ran(data, "list", "--state", "done").stderr == "No runs.\n"


def test_one_run_is_shown_without_its_texts(data: Path) -> None:
    shown = ran(data, "show", "run_1").stdout
    assert "round_trips_saved: 1" in shown and "cost_usd: $0.250000" in shown
    whole = told(data, "show", "run_1")
    assert "canary" not in shown + json.dumps(whole)
    assert [step["name"] for step in whole["rows"]] == ["plan", "code"]
    assert [each["state"] for each in whole["variables"]] == ["ready", "failed"]
    assert ran(data, "show", "run_9").exit_code == 2


def test_a_run_is_cancelled_and_a_step_is_decided_about(data: Path) -> None:
    assert ran(data, "cancel", "run_2").stdout.startswith("Asked to cancel")
    with opened(data) as store:
        whole = store.runs.run("run_2")
        assert whole is not None and whole.run.cancel_asked
    assert ran(data, "cancel", "run_1").exit_code == 1
    for words in (("s0", "value"), ("s0", "skip", "--value", "x"), ("s0", "forget")):
        assert ran(data, "resolve", "run_2", *words).exit_code == 2
    late = ran(data, "resolve", "run_2", "s0", "retry")
    assert late.exit_code == 1 and "those that do: none" in late.stderr
