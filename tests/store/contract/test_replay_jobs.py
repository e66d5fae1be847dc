"""What a run asked and paid for: never lost, never twice, never beyond its budget, and never by two runs at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from store import Store
from store.jobs.replay_jobs import AnotherReplayRuns, BudgetSpent, NotThatRun, ReplayJobs, StopAsked
from store.jobs.replay_records import NewAsk, NewStep, ReplayBudget, ReplaySpent
from tests.store.contract.conftest import Opening
from tests.store.rows import new_example


def step(example_id: int = 1, tenant: str = "a1", **changes: object) -> NewStep:
    fields: dict[str, object] = {
        "tenant": tenant,
        "kind": "distil",
        "example_id": example_id,
        "gain": 0.5,
        "expected_effect": 0.125,
        "expected_usd": 0.01,
        "expected_tokens": 100,
        "expected_s": 2.0,
    }
    return NewStep(**(fields | changes))  # type: ignore[arg-type]


def ask(jobs: ReplayJobs, run: int, key: str = "answer/0", usd: float = 0.1, tokens: int = 50) -> NewAsk:
    first = jobs.steps(run)[0]
    return NewAsk(run, first.id, "a1", key, "lead", "answer", usd, tokens)


@pytest.fixture
def jobs(store: Store) -> ReplayJobs:
    return store.jobs.replay


def begun(jobs: ReplayJobs, budget: ReplayBudget | None = None, steps: int = 2) -> int:
    run = jobs.want("a1", budget or ReplayBudget(), asked_by="command").result()
    jobs.plan(run, [step(n + 1) for n in range(steps)]).result()
    jobs.begin(run).result()
    return run


def test_a_run_keeps_its_plan_in_order_and_gets_only_one(jobs: ReplayJobs) -> None:
    run = jobs.want("a1", ReplayBudget(1.0, 2, 3.0), asked_by="admin").result()
    assert jobs.plan(run, [step(7), step(3, kind="expand")]).result() == 2
    assert jobs.plan(run, [step(9)]).result() == 2, "a plan that is being carried out is not exchanged"
    assert [(s.position, s.plan, s.state) for s in jobs.steps(run)] == [
        (0, step(7), "planned"),
        (1, step(3, kind="expand"), "planned"),
    ]
    found = jobs.run(run)
    assert found is not None
    assert (found.state, found.budget, found.asked_by) == ("wanted", ReplayBudget(1.0, 2, 3.0), "admin")


def test_what_was_paid_for_is_known_again_and_can_be_paid_only_once(jobs: ReplayJobs) -> None:
    run = begun(jobs)
    note = ask(jobs, run)
    paid = jobs.asks.note(note).result()
    assert jobs.steps(run)[0].state == "asked"
    jobs.asks.answered(
        paid, "paid", cost_usd=0.02, prompt_tokens=10, completion_tokens=5, latency_s=1.5, text="Ha."
    ).result()
    assert jobs.asks.paid(note.step_id) == {"answer/0": "Ha."}
    again = jobs.asks.note(note).result()
    with pytest.raises(Exception, match="UNIQUE"):
        jobs.asks.answered(again, "paid", cost_usd=0.02).result()
    assert jobs.asks.spent(run) == ReplaySpent(0.02, 15, 1.5, 0.1, 50), (
        "the second is still under way, for all we know"
    )


def test_what_was_under_way_when_its_process_died_is_spent_to_an_unknown_extent(jobs: ReplayJobs) -> None:
    run = begun(jobs)
    jobs.asks.note(ask(jobs, run)).result()
    assert jobs.interrupt_dead().result() == [run]
    found = jobs.run(run)
    assert found is not None
    assert found.state == "interrupted"
    assert jobs.asks.spent(run) == ReplaySpent(unknown_usd=0.1, unknown_tokens=50)
    assert [(line.engine, line.purpose, line.spent.unknown_usd) for line in jobs.asks.spend()] == [
        ("lead", "answer", 0.1)
    ]
    jobs.begin(run).result()
    assert jobs.asks.paid(jobs.steps(run)[0].id) == {}, "nobody has its answer, so it is asked again"


@pytest.mark.parametrize(
    ("budget", "of"),
    [
        (ReplayBudget(usd=0.25), r"\$0.05 of its \$0.25 are left"),
        (ReplayBudget(tokens=120), "of its 120 tokens are left"),
        (ReplayBudget(seconds=0.0), "0 s of engines. time are spent"),
    ],
)
def test_no_request_is_noted_that_could_break_the_budget(
    jobs: ReplayJobs, budget: ReplayBudget, of: str
) -> None:
    run = begun(jobs, budget)
    with pytest.raises(BudgetSpent, match=of):
        for number in range(3):
            jobs.asks.note(ask(jobs, run, f"answer/{number}")).result()
    spent = jobs.asks.spent(run)
    assert spent.most_usd <= 0.25
    assert spent.unknown_tokens <= 120
    jobs.widen(run, ReplayBudget()).result()
    jobs.asks.note(ask(jobs, run, "answer/9")).result()


def test_a_run_that_was_asked_to_stop_asks_nothing_more(jobs: ReplayJobs) -> None:
    run = begun(jobs)
    assert jobs.ask_to_stop(run).result()
    with pytest.raises(StopAsked):
        jobs.asks.note(ask(jobs, run)).result()
    jobs.end(run, "stopped").result()
    assert not jobs.ask_to_stop(run).result()
    wanted = jobs.want("a1", ReplayBudget(), asked_by="admin").result()
    assert jobs.ask_to_stop(wanted).result()
    with pytest.raises(NotThatRun):
        jobs.begin(wanted + 1).result()


def test_texts_go_when_the_step_is_done_and_when_the_example_goes(jobs: ReplayJobs, store: Store) -> None:
    bank = store.examples
    examples = [bank.add(new_example(n)).result() for n in range(2)]
    run = jobs.want("a1", ReplayBudget(), asked_by="command").result()
    jobs.plan(run, [step(e.id) for e in examples]).result()
    jobs.begin(run).result()
    for number, planned in enumerate(jobs.steps(run)):
        id = jobs.asks.note(NewAsk(run, planned.id, "a1", "k", "lead", "answer", 0.1, 5)).result()
        jobs.asks.answered(id, "paid", cost_usd=0.1, text=f"secret {number}").result()
    first, second = jobs.steps(run)
    jobs.finish(first.id, "done", "replaced", {"source": "old"}).result()
    bank.remove("a1", [examples[1].id]).result()
    assert set(jobs.asks.paid(first.id).values()) | set(jobs.asks.paid(second.id).values()) == {""}
    assert jobs.progress(run) == {"done": 1, "asked": 1}
    assert jobs.results("distil", "a1") == {("old", "replaced"): 1}
    assert jobs.replayed_since("a1", 0.0) == {("distil", examples[0].id)}


def test_two_runs_never_go_on_at_once_whichever_process_begins_them(
    jobs: ReplayJobs, open_store: Opening
) -> None:
    first = jobs.want("a1", ReplayBudget(), asked_by="command").result()
    second = jobs.want("b2", ReplayBudget(), asked_by="schedule").result()
    other = open_store().jobs.replay
    with ThreadPoolExecutor(2) as threads:
        begun = [
            threads.submit(lambda j, r: j.begin(r).exception(), *each)
            for each in ((jobs, first), (other, second))
        ]
        errors = [each.result() for each in begun]
    assert sorted(type(error).__name__ for error in errors) == ["AnotherReplayRuns", "NoneType"]
    going = jobs.runs(states=["running"])
    with pytest.raises(AnotherReplayRuns):
        jobs.begin(going[0].id).result()
    jobs.end(going[0].id, "done").result()
    jobs.begin(second if going[0].id == first else first).result()
