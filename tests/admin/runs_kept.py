"""Runs as an executor leaves them in a store, for the pages that show them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from store import Store
from store.workflows.records import (
    Claim,
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
CLAIM = Claim("w1", 86_400.0)
"""No gateway shall carry on what a test began."""


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
        app="papers",
        gets={f"{id}-summary": "latency"},
        budget=RunBudget(usd=2.0),
    )
    store.runs.forget_app(tenant, "papers")
    store.runs.begin(CLAIM, run, steps, variables).result(WAIT_S)
    progress = {f"s{n}": _done(at_s, 0, n + 1, "group") for n in range(maps)}
    progress["last"] = _done(at_s, maps + 1, maps + 3, "latency")
    ended = [VariableEnd(variable.id, "ready", said) for variable in variables[1:]]
    end = RunEnd("done", at_s + maps + 3, None, (f"s{maps - 1}", "last"), 1)
    store.runs.save(CLAIM, [RunChange(id, at_s + maps + 3, progress, variables=ended, end=end)]).result(
        WAIT_S
    )


def failed(store: Store, id: str, at_s: float, *, tenant: str = "t1", said: str = "no") -> None:
    """A run of two steps of which the first was refused."""
    steps = [
        NewStep("s0", "plan", "demo", b"{}", {}, {"plan": f"{id}-plan"}),
        NewStep("s1", "code", "demo", b"{}", {"plan": f"{id}-plan"}, {"code": f"{id}-code"}),
    ]
    variables = [NewVariable(f"{id}-{step.name}", step.name, step=step.id) for step in steps]
    store.runs.begin(CLAIM, NewRun(id, tenant, at_s), steps, variables).result(WAIT_S)
    why = Failure("step_failed", said, 400, ("code", "plan"))
    changed = {
        "s0": StepProgress("failed", 2, "latency", ready_at_s=at_s, ended_at_s=at_s + 1, failure=why),
        "s1": StepProgress("failed", ended_at_s=at_s + 1, failure=why),
    }
    ended = [VariableEnd(each.id, "failed", failure=why) for each in variables]
    end = RunEnd("failed", at_s + 1, why, ("s0",), 0)
    store.runs.save(CLAIM, [RunChange(id, at_s + 1, changed, variables=ended, end=end)]).result(WAIT_S)


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
    store.runs.begin(CLAIM, NewRun(id, tenant, at_s), asked, variables).result(WAIT_S)
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
    store.runs.save(CLAIM, [change]).result(WAIT_S)


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


DOC_QA: dict[str, Any] = {
    "inputs": {"question": "last_user", "documents": "texts"},
    "steps": {
        "chunks": {"split": "{{documents}}", "tokens": 256, "overlap": 30},
        "index": {"ingest": "{{chunks}}"},
        "queries": {
            "chat": "Rewrite in 3 ways, as a JSON list: {{question}}",
            "model": "demo",
            "splits": "json",
        },
        "found": {"search": "{{queries}}", "in": "{{index}}", "k": 16},
        "top": {"rerank": "{{found}}", "by": "{{question}}", "k": 3},
        "answer": {
            "fold": "{{top}}",
            "chat": "From {{item}} and {{so_far}}, answer: {{question}}",
            "model": "demo",
        },
    },
    "output": "answer",
}


def of_workflow(
    store: Store, id: str, at_s: float, *, tenant: str = "t1", said: str = "a text", ends: bool = True
) -> None:
    """A run of a workflow: two pieces are embedded at once, one with steps of other such runs, then a tool with side effects
    is called, then an answer. Without `ends` the tool was cut off."""

    def step(id_: str, primitive: str, *reads: str, component: str = "", **more: Any) -> NewStep:
        model = "demo" if primitive == "chat" else ""
        name = id_.split("[")[0].split(".")[0]
        variables = {f"{one}": f"{id}-{one}" for one in reads}
        return NewStep(
            *(id_, name, model, b"", variables, {name: f"{id}-{id_}"}),
            primitive=primitive,
            component=component,
            **more,
        )

    steps = [
        step("index.embed[0]", "embed", "documents", component="local"),
        step("index.embed[1]", "embed", "documents", component="local"),
        step("index", "gather", "index.embed[0]", "index.embed[1]"),
        step("book", "tool", component="travel", effects=True, waits=(f"{id}-index",)),
        step("answer", "chat", "index", "book"),
    ]
    variables = [NewVariable(f"{id}-documents", "documents", value=("one", "two"))]
    variables += [NewVariable(f"{id}-{one.id}", one.name, step=one.id) for one in steps]
    run = NewRun(id, tenant, at_s, workflow="doc-qa", version="0123456789abcdef")
    store.runs.begin(CLAIM, run, steps, variables).result(WAIT_S)

    def did(begun_s: float, ended_s: float, **more: Any) -> StepProgress:
        begun_s += at_s
        return StepProgress(
            "done", 1, ready_at_s=begun_s, started_at_s=begun_s, ended_at_s=at_s + ended_s, **more
        )

    unknown = replace(did(2, 3), state="unknown", ended_at_s=None)
    progress = {
        "index.embed[0]": did(0, 2, items=2, batch=f"{id}-b1"),
        "index.embed[1]": did(0, 2, items=1, batch="b2"),
        "index": did(2, 2),
        "book": did(2, 3) if ends else unknown,
        "answer": did(3, 5, prompt_tokens=1000, cached_tokens=280) if ends else StepProgress(),
    }
    ended = [VariableEnd(f"{id}-{one}", "ready", said) for one in progress if ends or one.startswith("index")]
    end = RunEnd("done", at_s + 5, None, ("index.embed[0]", "index", "book", "answer")) if ends else None
    store.runs.save(CLAIM, [RunChange(id, at_s + 5, progress, variables=ended, end=end)]).result(WAIT_S)
