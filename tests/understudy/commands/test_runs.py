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
    Resolution,
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
    lines = ran(data, "list").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["run_3", "running"],
        ["run_2", "running"],
        ["run_1", "failed"],
    ]
    assert "1/2 steps  15 tokens  $0.2500" in lines[2] and "took 3.0 s" in lines[2]
    assert "app game  tenant acme  step_failed" in lines[2]
    assert [each["run"] for each in told(data, "list", "--tenant", "acme")] == ["run_2", "run_1"]
    assert [each["run"] for each in told(data, "list", "--app", "game")] == ["run_1"]
    assert [each["run"] for each in told(data, "list", "--state", "running", "--limit", "1")] == ["run_3"]
    assert ran(data, "list", "--state", "done").stdout == "No runs.\n"


def test_one_run_is_shown_without_its_texts(data: Path) -> None:
    shown = ran(data, "show", "run_1")
    assert "1 round trips saved" in shown.stdout
    assert "large/r1  1.50 s  10+5 tokens, 4 cached" in shown.stdout
    assert "2 attempts  step_failed (status 400), from code" in shown.stdout
    whole = told(data, "show", "run_1")
    assert "canary" not in shown.stdout + json.dumps(whole)
    assert [step["name"] for step in whole["steps"]] == ["plan", "code"]
    assert whole["steps"][1]["reads"] == {"plan": "var_p"}
    assert [each["state"] for each in whole["variables"]] == ["ready", "failed"]
    assert whole["failure"] == {"code": "step_failed", "status": 400, "chain": ["code"]}
    missing = ran(data, "show", "run_9")
    assert missing.exit_code == 1 and "no run 'run_9'" in missing.stderr


@pytest.fixture
def cut_off(data: Path) -> Path:
    """A run of a workflow that waits for a person."""
    with opened(data) as store:
        steps = [
            NewStep("found.search[0]", "found", primitive="search", component="web"),
            NewStep("book", "book", primitive="tool", component="travel", effects=True),
            NewStep("answer", "answer", "m"),
        ]
        store.runs.begin(CLAIM, NewRun("run_4", "t", 400.0, workflow="doc-qa"), steps, [])
        progress = {
            "found.search[0]": StepProgress("done", 1, items=3, batch="b1"),
            "book": StepProgress("unknown", 1),
            "answer": StepProgress("waiting"),
        }
        store.runs.save(CLAIM, [RunChange("run_4", 401.0, progress)]).result(30)
    return data


def test_a_run_of_a_workflow_shows_primitives_and_what_it_waits_for(cut_off: Path) -> None:
    (listed,) = told(cut_off, "list", "--workflow", "doc-qa")
    assert (listed["run"], listed["workflow"]) == ("run_4", "doc-qa")
    assert "workflow doc-qa  tenant t  1 unknown" in ran(cut_off, "list").stdout
    shown = ran(cut_off, "show", "run_4").stdout
    assert "web  search, 3 items" in shown
    assert "understudy runs resolve run_4 book" in shown
    steps = told(cut_off, "show", "run_4")["steps"]
    assert [(each["primitive"], each["batch"], each["effects"]) for each in steps[:2]] == [
        ("search", "b1", False),
        ("tool", "", True),
    ]


def test_a_person_decides_about_a_step_whose_outcome_is_unknown(cut_off: Path) -> None:
    assert ran(cut_off, "resolve", "run_4", "book", "value").exit_code == 2
    assert ran(cut_off, "resolve", "run_4", "book", "skip", "--value", "x").exit_code == 2
    wrong = ran(cut_off, "resolve", "run_4", "answer", "retry")
    assert wrong.exit_code == 1 and "those that do: book" in wrong.stderr
    assert ran(cut_off, "resolve", "run_9", "book", "retry").exit_code == 1
    done = ran(cut_off, "resolve", "run_4", "book", "value", "--value", "booked")
    assert done.stdout == "told run_4 to go on with book: value\n"
    with opened(cut_off) as store:
        whole = store.runs.run("run_4")
        assert whole is not None and whole.steps[1].resolution == Resolution("value", "booked")


def test_a_run_that_goes_on_is_cancelled(data: Path) -> None:
    assert ran(data, "cancel", "run_2").stdout == "asked to cancel run_2\n"
    with opened(data) as store:
        whole = store.runs.run("run_2")
        assert whole is not None and whole.run.cancel_asked
    ended = ran(data, "cancel", "run_1")
    assert ended.exit_code == 1 and "has ended already: failed" in ended.stderr
    assert ran(data, "cancel", "run_9").exit_code == 1
