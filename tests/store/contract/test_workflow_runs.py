"""Runs, steps and variables: whole or not at all, written once, one worker at a time, and nobody else's.

Held to both databases.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from store.workflows.records import (
    Begun,
    Claim,
    Failure,
    IdempotencyConflict,
    Limits,
    NewRun,
    NewStep,
    NewVariable,
    NoSuchRun,
    Resolution,
    RunBudget,
    RunChange,
    RunEnd,
    Sharer,
    StepProgress,
    TenantUse,
    TooManyBytes,
    TooManyRuns,
    VariableEnd,
    VariableExists,
)
from store.workflows.runs import WorkflowRuns
from tests.store.contract.conftest import BACKENDS, Opening, opener

NOW = 1_000.0
LATER = NOW + 100
W1, W2, W3 = (Claim(worker, 600.0) for worker in ("w1", "w2", "w3"))
DEAD = Claim("w1", -1.0)
"""Of a worker that has not renewed it in time."""


def name(kind: str = "run") -> str:
    return f"{kind}_{secrets.token_hex(16)}"


def new_run(id: str = "run_1", **changes: object) -> NewRun:
    fields: dict[str, object] = {
        "id": id,
        "tenant": "a1",
        "created_at_s": NOW,
    }
    return NewRun(**(fields | changes))  # type: ignore[arg-type]


PLAN = NewStep("plan", "plan", "gpt-4o", b'{"messages": []}', {"task": "var_task"}, {"plan": "var_plan"})
CODE = NewStep("code", "code", "gpt-4o", b"{}", {"plan": "var_plan"}, {"code": "var_code"})
TASK = NewVariable("var_task", "task", value="a snake game")
OUTPUTS = (NewVariable("var_plan", "plan", step="plan"), NewVariable("var_code", "code", step="code"))


@pytest.fixture(params=BACKENDS)
def runs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WorkflowRuns]:
    store = opener(request.param, request, tmp_path / "data")()
    yield store.runs
    store.close()


def begin(runs: WorkflowRuns, run: NewRun | None = None, prefix: str = "") -> str:
    """Two steps: from the task a plan, from the plan the code."""
    run = run or new_run()

    def own(ids: dict[str, str]) -> dict[str, str]:
        return {key: f"{prefix}{id}" for key, id in ids.items()}

    steps = [
        replace(step, reads=own(dict(step.reads)), writes=own(dict(step.writes))) for step in (PLAN, CODE)
    ]
    variables = [replace(each, id=f"{prefix}{each.id}", app=run.app) for each in (TASK, *OUTPUTS)]
    assert runs.begin(W1, run, steps, variables).result() == Begun(run.id, repeated=False)
    return run.id


def end(runs: WorkflowRuns, run_id: str = "run_1", at_s: float = LATER, claim: Claim = W1) -> None:
    whole = runs.run(run_id)
    assert whole is not None
    done = {step.plan.id: StepProgress("done") for step in whole.steps}
    ended = RunEnd("done", at_s, critical_path=("plan", "code"))
    runs.save(claim, [RunChange(run_id, at_s, done, end=ended)]).result()


def test_a_run_is_kept_with_all_that_was_asked(runs: WorkflowRuns) -> None:
    asked = new_run(
        key_id="k1",
        contributor="k1/u",
        app="game",
        background=True,
        gets={"var_code": "latency"},
        budget=RunBudget(0.5, 1000, None),
        keep_values_s=60.0,
        context={"headers": {"x": "1"}},
    )
    begin(runs, asked)
    whole = runs.run("run_1", "a1")
    assert whole is not None
    run = whole.run
    assert (run.id, run.tenant, run.key_id, run.contributor, run.app) == ("run_1", "a1", "k1", "k1/u", "game")
    assert (run.state, run.background, whole.steps[0].claimed_by) == ("running", True, "w1")
    assert (run.gets, run.budget, run.context) == (
        {"var_code": "latency"},
        RunBudget(0.5, 1000, None),
        {"headers": {"x": "1"}},
    )
    assert (run.keep_values_s, run.expires_at_s, run.cancel_asked, run.adoptions) == (60.0, None, False, 0)
    assert [step.plan for step in whole.steps] == [PLAN, CODE]
    assert [step.position for step in whole.steps] == [0, 1]
    assert all(step.progress == StepProgress() for step in whole.steps)
    assert [(v.id, v.name, v.step, v.state, v.value) for v in whole.variables] == [
        ("var_task", "task", "", "ready", "a snake game"),
        ("var_plan", "plan", "plan", "pending", None),
        ("var_code", "code", "code", "pending", None),
    ]


def test_progress_values_and_end_are_written_as_told(runs: WorkflowRuns) -> None:
    begin(runs)
    running = StepProgress(
        "running", 1, "latency", "g", 2, "lead", "r1", "req_1", NOW, NOW + 1, NOW + 2, None, None
    )
    runs.save(W1, [RunChange("run_1", NOW + 2, {"plan": running}, streaming=["var_plan"])]).result()
    found = runs.variable("a1", "var_plan", now_s=NOW)
    assert found is not None and (found.state, found.value) == ("streaming", None)

    done = replace(
        running, state="done", first_at_s=NOW + 3, ended_at_s=NOW + 4, prompt_tokens=9, cached_tokens=4,
        completion_tokens=5, cost_usd=0.25,
    )  # fmt: skip
    refused = Failure("invalid_request_error", "too long: ...", 400, ("code",))
    failed = StepProgress("failed", failure=refused)
    change = RunChange(
        "run_1",
        LATER,
        {"plan": done, "code": failed},
        variables=[
            VariableEnd("var_plan", "ready", ("one", "two")),
            VariableEnd("var_code", "failed", failure=refused),
        ],
        end=RunEnd("failed", LATER, refused, ("plan",), 3),
    )
    runs.save(W1, [change]).result()
    whole = runs.run("run_1")
    assert whole is not None
    assert [step.progress for step in whole.steps] == [done, failed]
    assert [(v.state, v.value, v.failure, v.ended_at_s) for v in whole.variables] == [
        ("ready", "a snake game", None, NOW),
        ("ready", ("one", "two"), None, LATER),
        ("failed", None, refused, LATER),
    ]
    run = whole.run
    assert (run.state, run.failure, run.ended_at_s, run.expires_at_s) == (
        "failed",
        refused,
        LATER,
        LATER + 3600,
    )
    assert (run.critical_path, run.round_trips_saved) == (("plan",), 3)


def test_a_variable_is_written_once(runs: WorkflowRuns) -> None:
    begin(runs)
    for value in ("first", "second"):
        ended = VariableEnd("var_plan", "ready", value)
        runs.save(W1, [RunChange("run_1", NOW, variables=[ended])]).result()
    found = runs.variable("a1", "var_plan", now_s=NOW)
    assert found is not None and found.value == "first"


@pytest.mark.parametrize("value", ["", "ä\0 \ud800 😀", (), ("", "ä\ud800")])
def test_values_come_back_as_they_were(runs: WorkflowRuns, value: str | tuple[str, ...]) -> None:
    begin(runs)
    runs.save(W1, [RunChange("run_1", NOW, variables=[VariableEnd("var_plan", "ready", value)])]).result()
    found = runs.variable("a1", "var_plan", now_s=NOW)
    assert found is not None and found.value == value


# ---- nothing by halves


def test_a_taken_name_keeps_nothing_of_the_run(runs: WorkflowRuns) -> None:
    begin(runs, new_run(app="game"))
    second = [NewVariable(name("var"), "plan", "game", "s"), NewVariable(name("var"), "other", "game", "s")]
    with pytest.raises(VariableExists) as raised:
        runs.begin(W1, new_run("run_2", app="game"), [NewStep("s", body=b"123")], second).result()
    assert raised.value.names == ("plan",)
    assert runs.run("run_2") is None
    assert runs.named("a1", "game", ["other"], now_s=NOW) == {}
    assert runs.use("a1").live_runs == 1
    runs.begin(W1, new_run("run_3", app="else"), [], [replace(second[0], app="else")]).result()
    runs.begin(W1, new_run("run_4", tenant="b2", app="game"), [], [replace(second[1], name="plan")]).result()


def test_a_variable_s_id_is_used_once(runs: WorkflowRuns) -> None:
    begin(runs)
    with pytest.raises(VariableExists):
        runs.begin(W1, new_run("run_2"), [], [NewVariable("var_plan", "plan")]).result()
    with pytest.raises(VariableExists):
        runs.put("b2", NewVariable("var_plan", "plan", value="mine"), now_s=NOW, keep_s=10).result()
    assert runs.run("run_2") is None


def test_a_repeat_under_the_same_key_is_the_first_run(runs: WorkflowRuns) -> None:
    begin(runs, new_run(idempotency_key="once", idempotency_hash=b"h1"))
    again = new_run("run_2", idempotency_key="once", idempotency_hash=b"h1")
    assert runs.begin(W1, again, [PLAN], []).result() == Begun("run_1", repeated=True)
    with pytest.raises(IdempotencyConflict):
        runs.begin(W1, replace(again, idempotency_hash=b"h2"), [], []).result()
    assert runs.begin(W1, replace(again, tenant="b2"), [], []).result() == Begun("run_2", repeated=False)


def test_a_tenant_has_no_more_live_runs_than_it_may(runs: WorkflowRuns) -> None:
    limits = Limits(max_runs=2)
    runs.begin(W1, new_run("run_1"), [], [], limits).result()
    runs.begin(W1, new_run("run_2"), [], [], limits).result()
    with pytest.raises(TooManyRuns):
        runs.begin(W1, new_run("run_3"), [], [], limits).result()
    runs.begin(W1, new_run("run_4", tenant="b2"), [], [], limits).result()
    end(runs, "run_1")
    runs.begin(W1, new_run("run_3"), [], [], limits).result()
    assert runs.use("a1").live_runs == 2


def test_a_tenant_s_values_take_no_more_room_than_they_may(runs: WorkflowRuns) -> None:
    step, variable = NewStep("s", body=b"12345"), NewVariable("var_1", "x", value="äö")
    runs.begin(W1, new_run(), [step], [variable, NewVariable("var_2", "y", step="s")]).result()
    assert runs.use("a1") == TenantUse(1, 9)
    runs.save(W1, [RunChange("run_1", NOW, variables=[VariableEnd("var_2", "ready", "123")])]).result()
    assert runs.use("a1").total_bytes == 12
    limits = Limits(max_total_bytes=17)
    with pytest.raises(TooManyBytes):
        runs.begin(W1, new_run("run_2"), [NewStep("s", body=b"123456")], [], limits).result()
    with pytest.raises(TooManyBytes):
        runs.put("a1", NewVariable("v", value="123456"), now_s=NOW, keep_s=1, limits=limits).result()
    with pytest.raises(TooManyBytes):
        runs.extend(W1, "a1", "run_1", [NewStep("t", body=b"123456")], [], now_s=NOW, limits=limits).result()
    runs.begin(W1, new_run("run_2"), [step], [], limits).result()
    assert runs.use("a1").total_bytes == 17
    assert runs.use("b2") == TenantUse(0, 0)
    assert runs.forget_run("a1", "run_1").result()
    assert runs.use("a1") == TenantUse(1, 5)


def test_what_is_in_memory_only_takes_room_while_its_run_goes_on(runs: WorkflowRuns) -> None:
    limits = Limits(max_total_bytes=100)
    step, made = NewStep("s", held_bytes=60), NewVariable("var_1", "x", step="s")
    runs.begin(W1, new_run(no_store=True), [step], [made], limits).result()
    assert runs.use("a1").total_bytes == 60
    for no_store, more in ((True, NewStep("s", held_bytes=41)), (False, NewStep("s", body=b"x" * 41))):
        with pytest.raises(TooManyBytes):
            runs.begin(W1, new_run("run_2", no_store=no_store), [more], [], limits).result()
    with pytest.raises(TooManyBytes):
        runs.extend(W1, "a1", "run_1", [NewStep("t", held_bytes=41)], [], now_s=NOW, limits=limits).result()
    runs.save(W1, [RunChange("run_1", NOW, variables=[VariableEnd("var_1", "ready", "x" * 30)])]).result()
    assert runs.use("a1").total_bytes == 90
    end(runs, "run_1")
    runs.begin(W1, new_run("run_2", no_store=True), [NewStep("s", held_bytes=70)], [], limits).result()
    assert runs.use("a1").total_bytes >= 70
    assert runs.forget_tenant("a1").result() == 2
    assert runs.use("a1").total_bytes == 0


def test_a_live_run_grows_call_by_call(runs: WorkflowRuns) -> None:
    begin(runs, new_run(app="game"))
    tests = NewStep("tests", reads={"code": "var_code"}, writes={"tests": "var_tests"})
    runs.extend(
        W1, "a1", "run_1", [tests], [NewVariable("var_tests", "tests", "game", "tests")], now_s=NOW
    ).result()
    whole = runs.run("run_1")
    assert whole is not None
    assert [(step.plan.id, step.position) for step in whole.steps] == [("plan", 0), ("code", 1), ("tests", 2)]
    assert set(runs.named("a1", "game", ["tests", "code", "none"], now_s=NOW)) == {"tests", "code"}
    with pytest.raises(NoSuchRun):
        runs.extend(W1, "b2", "run_1", [tests], [], now_s=NOW).result()
    with pytest.raises(NoSuchRun):
        runs.extend(W2, "a1", "run_1", [replace(tests, id="more")], [], now_s=NOW).result()
    runs.extend(W1, "a1", "run_1", [NewStep("more")], [], now_s=NOW).result()
    with pytest.raises(VariableExists):
        runs.extend(W1, "a1", "run_1", [], [NewVariable("var_n", "tests", "game")], now_s=NOW).result()
    end(runs)
    with pytest.raises(NoSuchRun):
        runs.extend(W1, "a1", "run_1", [replace(tests, id="more")], [], now_s=NOW).result()


# ---- variables without a producer


def test_a_variable_is_declared_then_set_then_taken(runs: WorkflowRuns) -> None:
    declared = NewVariable("var_1", "go", "game")
    assert runs.put("a1", declared, now_s=NOW, keep_s=50).result() == "var_1"
    assert runs.put("a1", replace(declared, id="var_2"), now_s=NOW, keep_s=50).result() == "var_1"
    setting = replace(declared, id="var_3", value="yes")
    assert runs.put("a1", setting, now_s=NOW + 1, keep_s=50).result() == "var_1"
    found = runs.named("a1", "game", ["go"], now_s=NOW)["go"]
    assert (found.id, found.state, found.value, found.expires_at_s) == ("var_1", "ready", "yes", NOW + 51)
    with pytest.raises(VariableExists):
        runs.put("a1", setting, now_s=NOW, keep_s=50).result()
    with pytest.raises(VariableExists):
        runs.put("a1", declared, now_s=NOW, keep_s=50).result()
    begin(runs, new_run(app="game"))
    with pytest.raises(VariableExists):
        runs.put("a1", NewVariable("var_9", "plan", "game", value="mine"), now_s=NOW, keep_s=50).result()


def test_a_declared_variable_may_get_a_producer(runs: WorkflowRuns) -> None:
    runs.put("a1", NewVariable("var_1", "plan", "game"), now_s=NOW, keep_s=50).result()
    with pytest.raises(VariableExists):
        runs.begin(W1, new_run(app="game"), [PLAN], [NewVariable("var_2", "plan", "game", "plan")]).result()
    runs.begin(W1, new_run(app="game"), [PLAN], [NewVariable("var_1", "plan", "game", "plan")]).result()
    found = runs.variable("a1", "var_1", now_s=NOW + 999)
    assert found is not None and (found.run_id, found.step, found.expires_at_s) == ("run_1", "plan", None)
    with pytest.raises(VariableExists):
        runs.put("a1", NewVariable("var_3", "plan", "game", value="x"), now_s=NOW, keep_s=50).result()
    with pytest.raises(VariableExists):
        runs.begin(
            W1, new_run("run_2", app="game"), [], [NewVariable("var_1", "plan", "game", "plan")]
        ).result()


# ---- claims


def test_only_who_has_claimed_its_steps_writes(runs: WorkflowRuns) -> None:
    begin(runs)
    runs.begin(W2, new_run("run_2"), [PLAN], []).result()
    running = StepProgress("running", 1)
    both = [RunChange(id, NOW, {"plan": running}) for id in ("run_1", "run_2")]
    assert runs.save(W1, both).result() == {"run_2"}
    states = [whole.steps[0].progress.state for id in ("run_1", "run_2") if (whole := runs.run(id))]
    assert states == ["running", "waiting"], "one that is lost keeps no other back"
    assert runs.save(W1, [RunChange("run_none", NOW)]).result() == {"run_none"}


def test_steps_whose_claim_is_over_are_claimed_by_one_worker(runs: WorkflowRuns) -> None:
    begin(runs)
    begin(runs, new_run("run_2"), "other_")
    runs.save(W1, [RunChange("run_1", NOW, {"plan": StepProgress("running", 1)}, ["var_plan"])]).result()
    runs.append("w1", "var_plan", 0, "First").result()
    assert runs.claim(W2).result() == (), "a claim holds to its end"
    runs.renew(DEAD).result()
    assert set(runs.claim(W2).result()) == {"run_1", "run_2"}
    assert runs.claim(W3).result() == ()
    runs.renew(DEAD).result()
    assert runs.claim(W3).result() == (), "nothing is left to renew"
    late = VariableEnd("var_plan", "ready", "late")
    assert runs.save(W1, [RunChange("run_1", NOW, variables=[late])]).result() == {"run_1"}
    runs.append("w1", "var_plan", 5, " words").result()
    whole = runs.run("run_1")
    assert whole is not None
    assert ({step.claimed_by for step in whole.steps}, whole.run.adoptions) == ({"w2"}, 1)
    assert whole.steps[0].progress == StepProgress("running", 1), (
        "what was under way is the next one's to judge"
    )
    plan = whole.variables[1]
    assert (plan.state, plan.attempt, plan.value) == ("pending", 1, None)
    assert runs.text("a1", "var_plan") == ""
    end(runs, "run_1", claim=W2)
    end(runs, "run_2", claim=W2)
    runs.renew(Claim("w2", -1.0)).result()
    assert runs.claim(W3).result() == (), "what has ended is nobody's"


def test_claiming_takes_no_more_than_asked(runs: WorkflowRuns) -> None:
    for n in range(5):
        runs.begin(DEAD, new_run(f"run_{n}"), [PLAN, CODE], []).result()
    assert len(runs.claim(W2, limit=2).result()) == 2
    assert len(runs.claim(W3).result()) == 3


def test_a_run_whose_steps_ended_and_whose_own_end_was_not_written_is_due(runs: WorkflowRuns) -> None:
    begin(runs)
    done = {id: StepProgress("done") for id in ("plan", "code")}
    runs.save(W1, [RunChange("run_1", NOW, done)]).result()
    assert runs.claim(W2).result() == ("run_1",)
    end(runs, claim=W2)
    assert runs.claim(W3).result() == ()


def test_a_cancel_reaches_the_worker(runs: WorkflowRuns) -> None:
    begin(runs)
    assert not runs.request_cancel("b2", "run_1").result()
    assert runs.news("w1", ["run_1"]).cancelled == frozenset()
    assert runs.request_cancel("a1", "run_1").result()
    assert runs.news("w1", ["run_1", "run_none"]).cancelled == {"run_1"}
    whole = runs.run("run_1")
    assert whole is not None and whole.run.cancel_asked
    end(runs)
    assert not runs.request_cancel("a1", "run_1").result()


# ---- waiting


def test_whoever_waits_sees_that_something_was_written(runs: WorkflowRuns) -> None:
    begin(runs)
    version = runs.version()
    runs.save(W1, [RunChange("run_1", NOW, variables=[VariableEnd("var_plan", "ready", "p")])]).result()
    assert runs.version() != version
    both = runs.variables("a1", ["var_plan", "var_task", "var_none"], now_s=NOW)
    assert {id: v.value for id, v in both.items()} == {"var_plan": "p", "var_task": "a snake game"}
    assert runs.variables("b2", ["var_plan"], now_s=NOW) == {}


def test_a_get_reaches_the_worker_and_the_stricter_one_stays(runs: WorkflowRuns) -> None:
    begin(runs)
    runs.note_get("a1", "var_code", "ttft", stream=True).result()
    runs.note_get("a1", "var_code", "throughput", stream=False).result()
    runs.note_get("a1", "var_plan", "latency", stream=False).result()
    runs.note_get("b2", "var_task", "latency", stream=False).result()
    news = runs.news("w1", ["run_1"])
    assert news.gets == {"run_1": {"var_code": "ttft", "var_plan": "latency"}}
    assert news.streamed == {"var_code"}
    whole = runs.run("run_1")
    assert whole is not None and whole.run.gets == {"var_code": "ttft", "var_plan": "latency"}


def test_a_text_is_read_while_it_comes(runs: WorkflowRuns) -> None:
    begin(runs)
    assert runs.text("a1", "var_plan") == ""
    runs.append("w1", "var_plan", 0, "Fürst ").result()
    runs.append("w1", "var_plan", 6, "think, ").result()
    runs.append("w1", "var_plan", 13, "then write").result()
    assert [runs.text("a1", "var_plan", after) for after in (0, 6, 8, 13, 23, 99)] == [
        "Fürst think, then write",
        "think, then write",
        "ink, then write",
        "then write",
        "",
        "",
    ]
    assert runs.text("b2", "var_plan") == ""
    found = runs.variable("a1", "var_plan", now_s=NOW)
    assert found is not None and (found.state, found.value) == ("streaming", None)
    runs.append("w2", "var_plan", 23, " by another").result()
    assert runs.text("a1", "var_plan", 23) == ""
    runs.save(W1, [RunChange("run_1", NOW, variables=[VariableEnd("var_plan", "ready", "All.")])]).result()
    assert runs.text("a1", "var_plan") == "", "the value holds it"
    runs.append("w1", "var_plan", 4, "more").result()
    found = runs.variable("a1", "var_plan", now_s=NOW)
    assert found is not None and (found.state, found.value) == ("ready", "All.")


# ---- tenants


def test_another_tenant_s_are_absent(runs: WorkflowRuns) -> None:
    begin(runs, new_run(app="game"))
    assert runs.variable("b2", "var_task", now_s=NOW) is None
    assert runs.variable("a1", "var_none", now_s=NOW) is None
    assert runs.named("b2", "game", ["task"], now_s=NOW) == {}
    assert runs.run("run_1", "b2") is None
    assert runs.runs(tenant="b2") == []
    assert not runs.forget_run("b2", "run_1").result()
    assert runs.forget_app("b2", "game").result() == 0
    assert runs.forget_tenant("b2").result() == 0
    assert runs.run("run_1", "a1") is not None


# ---- steps of workflows


def test_a_step_keeps_what_kind_of_work_it_is(runs: WorkflowRuns) -> None:
    search = NewStep(
        "found.search[0]",
        "found",
        reads={"queries": "var_task"},
        writes={"found": "var_plan"},
        primitive="search",
        component="web",
        effects=True,
        waits=("var_task", "var_other"),
    )
    runs.begin(W1, new_run(workflow="doc-qa", version="v1"), [search], [TASK]).result()
    asked = StepProgress("running", 1, items=3, batch="b1")
    runs.save(W1, [RunChange("run_1", NOW, {search.id: asked})]).result()
    whole = runs.run("run_1", "a1")
    assert whole is not None and (whole.run.workflow, whole.run.version) == ("doc-qa", "v1")
    assert [(step.plan, step.progress, step.resolution) for step in whole.steps] == [(search, asked, None)]
    assert len(runs.runs(workflow="doc-qa")) == 1
    assert runs.runs(workflow="") == runs.runs(workflow="other") == []


def test_a_step_learns_of_more_to_read(runs: WorkflowRuns) -> None:
    begin(runs)
    reads = {"plan": "var_plan", "task": "var_task"}
    runs.save(W1, [RunChange("run_1", NOW, reads={"code": reads})]).result()
    whole = runs.run("run_1")
    assert whole is not None and [step.plan.reads for step in whole.steps] == [PLAN.reads, reads]


def test_what_is_not_taken_is_skipped_for_good(runs: WorkflowRuns) -> None:
    begin(runs)
    skipped = RunChange(
        "run_1", NOW, {"plan": StepProgress("skipped")}, variables=[VariableEnd("var_plan", "skipped")]
    )
    runs.save(W1, [skipped]).result()
    late = [VariableEnd("var_plan", "ready", "too late")]
    runs.save(W1, [RunChange("run_1", NOW, variables=late)]).result()
    found = runs.variable("a1", "var_plan", now_s=NOW)
    assert found is not None and (found.state, found.value, found.ended_at_s) == ("skipped", None, NOW)


def test_somebody_decides_about_a_step_whose_outcome_is_unknown(runs: WorkflowRuns) -> None:
    begin(runs)
    taken = Resolution("value", ("one", "two"))

    def decide(tenant: str = "a1", step: str = "plan") -> bool:
        return runs.resolve(tenant, "run_1", step, taken).result()

    def decided() -> list[Resolution | None]:
        whole = runs.run("run_1")
        assert whole is not None
        return [step.resolution for step in whole.steps]

    assert not decide(), "it waits"
    unknown = StepProgress("unknown", 1)
    runs.save(W1, [RunChange("run_1", NOW, {"plan": unknown})]).result()
    assert runs.undecided() == [("run_1", "plan")] and runs.undecided(0) == []
    assert not decide(tenant="b2") and not decide(step="code") and not decide(step="nowhere")
    assert decide()
    assert runs.news("w1", ["run_1"]).resolved == [("run_1", "plan", taken)]
    assert decided() == [taken, None] and runs.undecided() == []
    runs.save(W1, [RunChange("run_1", NOW, {"plan": unknown})]).result()
    assert decided() == [taken, None], "nobody acted on it yet"
    runs.save(W1, [RunChange("run_1", NOW, {"plan": StepProgress("running", 2)})]).result()
    assert decided() == [None, None]
    runs.save(W1, [RunChange("run_1", NOW, {"plan": unknown})]).result()
    assert decided() == [None, None], "what was decided holds once"
    end(runs)
    assert not decide()


def test_a_decided_value_of_a_run_that_is_not_stored_is_not_written(runs: WorkflowRuns) -> None:
    begin(runs, new_run(no_store=True))
    runs.save(W1, [RunChange("run_1", NOW, {"plan": StepProgress("unknown")})]).result()
    assert not runs.resolve("a1", "run_1", "plan", Resolution("value", "text")).result()
    assert runs.resolve("a1", "run_1", "plan", Resolution("skip")).result()


def test_who_shared_a_batch_is_found_whoever_they_are_of(runs: WorkflowRuns) -> None:
    begin(runs)
    begin(runs, new_run("run_2", tenant="b2"), prefix="b2_")
    for run, items in (("run_1", 3), ("run_2", 5)):
        runs.save(W1, [RunChange(run, NOW, {"plan": StepProgress("done", items=items, batch="b1")})]).result()
    assert runs.sharers(["b1", "b2"]) == [
        Sharer("b1", "a1", "run_1", "plan", 3),
        Sharer("b1", "b2", "run_2", "plan", 5),
    ]
    assert runs.sharers([""]) == runs.sharers([]) == []


# ---- lists


def test_lists_are_newest_first_and_go_on(runs: WorkflowRuns) -> None:
    for n in range(5):
        tenant = "a1" if n % 2 else "b2"
        runs.begin(
            W1, new_run(f"run_{n}", created_at_s=NOW + n // 2, tenant=tenant, app="g"), [PLAN, CODE], []
        ).result()
    done = StepProgress("done", prompt_tokens=10, cached_tokens=4, completion_tokens=2, cost_usd=0.5)
    runs.save(W1, [RunChange("run_3", NOW, {"plan": done, "code": done}, end=RunEnd("done", NOW))]).result()
    everything = runs.runs()
    assert [each.run.id for each in everything] == ["run_4", "run_3", "run_2", "run_1", "run_0"]
    last = everything[1].run
    assert [e.run.id for e in runs.runs(before=(last.created_at_s, last.id), limit=2)] == ["run_2", "run_1"]
    assert [e.run.id for e in runs.runs(tenant="a1")] == ["run_3", "run_1"]
    assert [e.run.id for e in runs.runs(tenant="a1", app="g", states=["done", "failed"])] == ["run_3"]
    assert runs.runs(app="h") == []
    ended, live = runs.runs(tenant="a1")
    assert (ended.steps, live.steps) == ({"done": 2}, {"waiting": 2})
    assert (ended.prompt_tokens, ended.cached_tokens, ended.completion_tokens, ended.cost_usd) == (
        20,
        8,
        4,
        1.0,
    )
    assert dict(runs.counts()) == {"running": 4, "done": 1}
    assert dict(runs.counts(tenant="b2", since_s=NOW + 1)) == {"running": 2}


# ---- away


def test_values_go_when_their_time_is_over_and_the_rest_stays(runs: WorkflowRuns) -> None:
    begin(runs, new_run(app="game", keep_values_s=60.0, context={"secret": "words"}))
    why = Failure("engine_error", "it said words", 500, ("code",))
    change = RunChange(
        "run_1",
        NOW,
        {"code": StepProgress("failed", failure=why)},
        variables=[VariableEnd("var_plan", "ready", "words"), VariableEnd("var_code", "failed", failure=why)],
        end=RunEnd("failed", NOW, why),
    )
    runs.save(W1, [change]).result()
    assert runs.variable("a1", "var_plan", now_s=NOW + 59) is not None
    assert runs.variable("a1", "var_plan", now_s=NOW + 60) is None, "over, whether it is deleted yet or not"
    assert runs.named("a1", "game", ["plan"], now_s=NOW + 60) == {}
    assert runs.expire(NOW + 59).result() == 0
    assert runs.expire(NOW + 60).result() == 3
    assert runs.expire(NOW + 60).result() == 0
    assert runs.variable("a1", "var_plan", now_s=NOW) is None
    whole = runs.run("run_1")
    assert whole is not None
    assert "words" not in repr(whole)
    assert "snake" not in repr(whole)
    assert [step.plan.body for step in whole.steps] == [b"", b""]
    assert whole.run.failure == Failure("engine_error", status=500, chain=("code",))
    assert [v.state for v in whole.variables] == ["ready", "ready", "failed"]
    assert runs.use("a1").total_bytes == 0
    begin(runs, new_run("run_2", app="game", created_at_s=NOW + 61), "again_")


def test_a_name_is_free_again_the_moment_its_value_is_over(runs: WorkflowRuns) -> None:
    variable = NewVariable("var_1", "go", "game", value="old")
    runs.put("a1", variable, now_s=NOW, keep_s=50).result()
    with pytest.raises(VariableExists):
        runs.put("a1", replace(variable, id="var_2"), now_s=NOW + 49, keep_s=50).result()
    assert (
        runs.put("a1", replace(variable, id="var_2", value="new"), now_s=NOW + 50, keep_s=50).result()
        == "var_2"
    )
    assert runs.named("a1", "game", ["go"], now_s=NOW + 50)["go"].value == "new"


def test_what_a_live_run_reads_does_not_expire(runs: WorkflowRuns) -> None:
    runs.put("a1", NewVariable("var_in", "in", "game", value="text"), now_s=NOW, keep_s=5).result()
    runs.begin(W1, new_run(), [NewStep("s", reads={"in": "var_in"})], []).result()
    assert runs.expire(LATER).result() == 0
    assert runs.variable("a1", "var_in", now_s=LATER) is not None
    with pytest.raises(VariableExists):
        runs.put("a1", NewVariable("var_2", "in", "game", value="new"), now_s=LATER, keep_s=5).result()
    end(runs)
    assert runs.variable("a1", "var_in", now_s=LATER) is None
    assert runs.expire(LATER).result() == 1


def test_runs_are_trimmed_by_their_end(runs: WorkflowRuns) -> None:
    for n in range(3):
        runs.begin(W1, new_run(f"run_{n}"), [PLAN], [NewVariable(f"var_{n}", "x")]).result()
    end(runs, "run_0", NOW)
    end(runs, "run_1", NOW + 10)
    assert runs.trim(NOW + 10, limit=1).result() == 1
    assert runs.trim(NOW + 10).result() == 0
    assert [each.run.id for each in runs.runs()] == ["run_2", "run_1"]
    assert runs.variable("a1", "var_0", now_s=NOW) is None
    assert runs.trim(LATER * 2).result() == 1
    assert [each.run.id for each in runs.runs()] == ["run_2"], "what goes on stays"


def test_a_forgotten_run_is_not_there_for_its_worker(runs: WorkflowRuns) -> None:
    begin(runs)
    assert runs.news("w1", ["run_1"]).there == {"run_1"}
    assert runs.forget_run("a1", "run_1").result()
    assert runs.news("w1", ["run_1"]).there == frozenset()
    assert runs.run("run_1") is None
    assert runs.variable("a1", "var_plan", now_s=NOW) is None
    assert runs.save(W1, [RunChange("run_1", NOW)]).result() == {"run_1"}
    assert not runs.forget_run("a1", "run_1").result()


def test_an_app_is_forgotten_with_what_was_set_in_it(runs: WorkflowRuns) -> None:
    begin(runs, new_run(app="game"))
    begin(runs, new_run("run_2", app="else"), "else_")
    runs.put("a1", NewVariable("var_set", "set", "game", value="x"), now_s=NOW, keep_s=9).result()
    runs.put("a1", NewVariable("var_alone", value="x"), now_s=NOW, keep_s=9).result()
    assert runs.forget_app("a1", "game").result() == 2
    assert runs.forget_app("a1", "").result() == 0
    assert [each.run.id for each in runs.runs()] == ["run_2"]
    found = runs.variables("a1", ["var_set", "var_plan", "var_alone", "else_var_plan"], now_s=NOW)
    assert set(found) == {"var_alone", "else_var_plan"}
    begin(runs, new_run("run_3", app="game"))


def test_a_contributor_and_a_tenant_are_forgotten(runs: WorkflowRuns) -> None:
    begin(runs, new_run(contributor="k1/u"))
    begin(runs, new_run("run_2", contributor="k2/"), "b_")
    begin(runs, new_run("run_3", tenant="b2", contributor="k1/u"), "c_")
    for n, contributor in enumerate(("k1/u", "k2/")):
        put = NewVariable(f"var_{n}", value="x")
        runs.put("a1", put, now_s=NOW, keep_s=9, contributor=contributor).result()
    with pytest.raises(ValueError, match="nobody"):
        runs.forget_contributor("a1", "")
    runs.extend(W1, "a1", "run_2", [NewStep("more", contributor="k3/v")], [], now_s=NOW).result()
    runs.begin(W1, new_run("run_4", contributor="k2/"), [], []).result()
    assert runs.forget_contributor("a1", "k1/u").result() == 2
    assert {each.run.id for each in runs.runs()} == {"run_2", "run_3", "run_4"}
    assert runs.forget_contributor("a1", "k3/v").result() == 1, "with the run that it joined"
    assert set(runs.variables("a1", ["var_0", "var_1"], now_s=NOW)) == {"var_1"}
    assert runs.forget_tenant("a1").result() == 2
    assert {each.run.id for each in runs.runs()} == {"run_3"}
    assert runs.use("a1") == TenantUse(0, 0)


# ---- only where there are other processes


@pytest.mark.slow
def test_another_process_sees_everything_and_finds_nothing_of_a_run_not_to_be_stored(
    open_store: Opening, holds: Callable[[Callable[[], object]], bool]
) -> None:
    ours, theirs = open_store().runs, open_store().runs
    version = theirs.version()
    begin(ours, new_run(no_store=True, app="game", context={"canary": 1}))
    assert holds(lambda: theirs.version() != version)
    ours.append("w1", "var_plan", 0, "canary").result()
    failed = Failure("engine_error", "canary", 500, ("plan",))
    change = RunChange(
        "run_1",
        NOW,
        {"plan": StepProgress("failed", failure=failed)},
        variables=[
            VariableEnd("var_plan", "ready", "canary"),
            VariableEnd("var_code", "failed", failure=failed),
        ],
        end=RunEnd("failed", NOW, failed),
    )
    ours.save(W1, [change]).result()
    assert theirs.text("a1", "var_plan") == ""
    whole = theirs.run("run_1")
    assert whole is not None and whole.run.no_store
    assert "canary" not in repr(whole)
    assert "snake" not in repr(whole)
    assert [(v.state, v.value) for v in whole.variables] == [
        ("ready", None),
        ("ready", None),
        ("failed", None),
    ]
    assert theirs.use("a1").total_bytes == 0


@pytest.mark.slow
def test_of_many_workers_one_claims(open_store: Opening) -> None:
    stores = [open_store().runs for _ in range(4)]
    for n in range(20):
        stores[0].begin(DEAD, new_run(f"run_{n:02}"), [PLAN], []).result()
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda n: stores[n].claim(Claim(f"v{n}", 600.0), limit=10).result(), range(4)))
    assert sorted(id for ids in taken for id in ids) == [f"run_{n:02}" for n in range(20)]


def test_nothing_is_lost_when_the_store_is_opened_again(open_store: Opening) -> None:
    first = open_store()
    begin(first.runs, new_run(app="game"))
    first.close()
    again = open_store().runs
    whole = again.run("run_1")
    assert whole is not None and [step.plan for step in whole.steps] == [PLAN, CODE]
