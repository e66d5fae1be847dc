"""Runs as an executor leaves them in a store, for the pages that show them."""

from __future__ import annotations

from store import Store
from store.workflows.records import (
    Failure,
    NewRun,
    NewStep,
    NewVariable,
    RunBudget,
    RunChange,
    RunEnd,
    StepProgress,
    VariableEnd,
)

WAIT_S = 30.0
LEASE_S = 86_400.0
"""No gateway shall adopt what a test began."""


def map_reduce(
    store: Store, id: str, at_s: float, *, maps: int = 3, tenant: str = "t1", said: str = "a value"
) -> None:
    """A run that is done: `maps` summaries of one text, each asked at once, then one summary of these."""
    names = [f"part-{n}" for n in range(maps)]
    steps = [
        NewStep(f"s{n}", name, "demo", said.encode(), {"text": f"{id}-text"}, {name: f"{id}-{name}"})
        for n, name in enumerate(names)
    ]
    reads = {name: f"{id}-{name}" for name in names}
    steps.append(NewStep("last", "summary", "demo", said.encode(), reads, {"summary": f"{id}-summary"}))
    variables = [NewVariable(f"{id}-text", "text", "papers", value=said)]
    variables += [NewVariable(f"{id}-{step.name}", step.name, "papers", step.id) for step in steps]
    run = NewRun(
        id,
        tenant,
        at_s,
        "w1",
        at_s + LEASE_S,
        app="papers",
        gets={f"{id}-summary": "latency"},
        budget=RunBudget(usd=2.0),
    )
    store.runs.forget_app(tenant, "papers", now_s=at_s)
    store.runs.begin(run, steps, variables).result(WAIT_S)
    progress = {f"s{n}": _done(at_s, 0, n + 1, "group") for n in range(maps)}
    progress["last"] = _done(at_s, maps + 1, maps + 3, "latency")
    ended = [VariableEnd(variable.id, "ready", said) for variable in variables[1:]]
    end = RunEnd("done", at_s + maps + 3, None, (f"s{maps - 1}", "last"), 1)
    store.runs.save("w1", [RunChange(id, at_s + maps + 3, progress, variables=ended, end=end)]).result(WAIT_S)


def failed(store: Store, id: str, at_s: float, *, tenant: str = "t1", said: str = "no") -> None:
    """A run of two steps of which the first was refused."""
    steps = [
        NewStep("s0", "plan", "demo", b"{}", {}, {"plan": f"{id}-plan"}),
        NewStep("s1", "code", "demo", b"{}", {"plan": f"{id}-plan"}, {"code": f"{id}-code"}),
    ]
    variables = [NewVariable(f"{id}-{step.name}", step.name, step=step.id) for step in steps]
    store.runs.begin(NewRun(id, tenant, at_s, "w1", at_s + LEASE_S), steps, variables).result(WAIT_S)
    why = Failure("step_failed", said, 400, ("code", "plan"))
    changed = {
        "s0": StepProgress("failed", 2, "latency", ready_at_s=at_s, ended_at_s=at_s + 1, failure=why),
        "s1": StepProgress("failed", ended_at_s=at_s + 1, failure=why),
    }
    ended = [VariableEnd(each.id, "failed", failure=why) for each in variables]
    end = RunEnd("failed", at_s + 1, why, ("s0",), 0)
    store.runs.save("w1", [RunChange(id, at_s + 1, changed, variables=ended, end=end)]).result(WAIT_S)


def going_on(store: Store, id: str, at_s: float, *, steps: int = 4, tenant: str = "t1") -> None:
    """A chain of which the first step is done and the second streams."""
    asked = [
        NewStep(
            f"s{n}",
            f"turn-{n}",
            "demo",
            b"{}",
            {"before": f"{id}-{n - 1}"} if n else {},
            {"turn": f"{id}-{n}"},
        )
        for n in range(steps)
    ]
    variables = [NewVariable(f"{id}-{n}", f"turn-{n}", step=f"s{n}") for n in range(steps)]
    store.runs.begin(NewRun(id, tenant, at_s, "w1", at_s + LEASE_S), asked, variables).result(WAIT_S)
    now = StepProgress(
        "running", 1, "latency", ready_at_s=at_s + 2, queued_at_s=at_s + 2, started_at_s=at_s + 2.5
    )
    change = RunChange(
        id,
        at_s + 2.5,
        {"s0": _done(at_s, 0, 2, "latency"), "s1": now},
        streaming=[f"{id}-1"],
        variables=[VariableEnd(f"{id}-0", "ready", "first")],
    )
    store.runs.save("w1", [change]).result(WAIT_S)


def _done(at_s: float, begun_s: float, ended_s: float, rank: str) -> StepProgress:
    """Half a second in the queue, a quarter until the first token."""
    begun_s += at_s
    return StepProgress(
        "done",
        1,
        rank,
        engine="large",
        replica="r1",
        request_id="req-1",
        ready_at_s=begun_s,
        queued_at_s=begun_s,
        started_at_s=begun_s + 0.5,
        first_at_s=begun_s + 0.75,
        ended_at_s=at_s + ended_s,
        prompt_tokens=1000,
        cached_tokens=400,
        completion_tokens=50,
        cost_usd=0.25,
    )
