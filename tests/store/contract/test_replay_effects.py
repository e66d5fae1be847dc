"""What runs replaced, and the judged and charged answers with examples around it, are read in bounds."""

from __future__ import annotations

from store import Store
from store.jobs.replay_effects import ReplayEffects
from store.jobs.replay_records import ChargedUse, JudgedUse, NewStep, ReplayBudget
from tests.store.rows import new_example, outcome_record, request_record


def test_only_steps_that_changed_an_example_count(store: Store) -> None:
    jobs = store.jobs.replay
    assert isinstance(jobs.effects, ReplayEffects)
    steps = [NewStep("t1", "distil", n, 0.5, 0.25, 0.02, 100, 1.0) for n in (7, 8, 9)]
    runs = [
        jobs.want("", ReplayBudget(), asked_by="admin", by_user="ann", steps=steps).result(30) for _ in "ab"
    ]
    made = jobs.steps(runs[0])
    assert [step.plan for step in made] == steps, "the plan came with it"
    for step, result in zip(made, ("replaced", "kept", "agreed"), strict=True):
        jobs.finish(step.id, "done", result).result(30)
    found = jobs.effects.changed(runs)
    assert {run: [one.example_id for one in each] for run, each in found.items()} == {runs[0]: [7]}
    run = jobs.run(runs[0])
    assert run is not None and (run.asked_by, run.by_user) == ("admin", "ann")


def test_an_example_that_a_run_wrote_counts_with_the_one_that_it_is_a_variation_of(store: Store) -> None:
    bank, jobs = store.examples, store.jobs.replay
    parent = bank.add(new_example(1)).result()
    steps = [NewStep("a1", "expand", id, 0.5, 0.25, 0.02, 100, 1.0) for id in (parent.id, parent.id)]
    run_id, other = (jobs.want("", ReplayBudget(), asked_by="admin", steps=steps).result(30) for _ in "ab")
    for number, id in ((2, run_id), (3, other)):
        bank.versions.add_variations(
            [new_example(number)],
            parent_id=parent.id,
            run_id=id,
            generator="large",
            step_id=jobs.steps(id)[0].id,
            detail={},
        ).result(30)
    jobs.finish(jobs.steps(run_id)[1].id, "done", "nothing_new").result(30)
    written = bank.by_request("a1", new_example(2).request_id)
    assert written is not None
    found = jobs.effects.changed([run_id])
    assert [one.example_id for one in found.pop(run_id)] == [parent.id, written.id] and not found


def test_judged_answers_with_examples_are_dated_by_their_request(store: Store) -> None:
    effects = store.jobs.replay.effects
    store.decisions.requests.record(request_record(0, tenant="t1", started_at_s=1000.0)).result(30)
    for number, changes in enumerate(
        (
            {"source": "judge", "example_ids": (3, 1), "at_s": 1060.0, "quality": 0.25, "probability": 0.5},
            {"source": "judge", "example_ids": (), "at_s": 1061.0},
            {"source": "user", "example_ids": (3,), "at_s": 1062.0},
            {"source": "judge", "example_ids": (3,), "at_s": 1063.0, "served": False},
            {
                "source": "judge",
                "example_ids": (5,),
                "at_s": 1064.0,
                "tenant": "t2",
                "quality": 1.0,
                "probability": 1.0,
            },
        )
    ):
        outcome = outcome_record(number, **{"tenant": "t1", **changes})  # type: ignore[arg-type]
        store.outcomes.note(outcome).result(30)
    first, second = JudgedUse(1000.0, (3, 1), 0.25, 0.5), JudgedUse(1064.0, (5,), 1.0, 1.0)

    def read(
        since_s: float, until_s: float, tenant: str | None = None, limit: int = 9, *, latest: bool = True
    ) -> list[JudgedUse]:
        return effects.judged(since_s, until_s, tenant=tenant, limit=limit, latest=latest)

    assert read(0, 2000) == [first, second]
    assert read(0, 2000, "t1") == [first] and read(0, 1064) == [first]
    assert read(0, 2000, limit=1) == [second] and read(0, 2000, limit=1, latest=False) == [first]


def test_answers_with_examples_tell_what_they_saved(store: Store) -> None:
    told = {"cost_usd": 0.01, "reference_cost_usd": 0.03, "outcome": "answered"}
    for number, changes in enumerate(
        (
            {"example_ids": (3, 1)},
            {"example_ids": ()},
            {"example_ids": (3,), "failed_over": "large; server"},
            {"example_ids": (3,), "reference_cost_usd": None},
            {"example_ids": (3,), "outcome": "failed"},
        )
    ):
        record = request_record(number, tenant="t1", started_at_s=1000.0 + number, **{**told, **changes})  # type: ignore[arg-type]
        store.decisions.requests.record(record).result(30)
    found = store.jobs.replay.effects.charged(0, 2000, tenant="t1", limit=9, latest=True)
    assert [(one.at_s, one.example_ids, round(one.saved_usd, 6)) for one in found] == [(1000.0, (3, 1), 0.02)]
    assert isinstance(found[0], ChargedUse)
    assert store.jobs.replay.effects.charged(0, 2000, tenant="t2", limit=9, latest=False) == []
