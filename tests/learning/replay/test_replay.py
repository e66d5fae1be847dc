"""Replay over a real store: wrong examples are mended, right ones stay, new ones fit, and all of it can be taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from learning.outcomes.verdicts import Judge
from learning.replay import expand
from learning.replay.run import take_back_example, take_back_run
from store.jobs.replay_jobs import AnotherReplayRuns, NotThatRun
from store.jobs.replay_records import ReplayBudget
from store.records import Example
from tests.learning.replay.bank import (
    TENANT,
    WORLD,
    bank_of,
    config,
    facts,
    kin,
    quality,
    right,
    settings,
    wrong,
)
from tests.store.behind import database, written_by
from understudy.setup.replay import CannotReplay, opened

LOTS = ReplayBudget(usd=10.0)
OTHER = "0" * 32


def contents(store) -> dict[int, tuple[object, ...]]:  # type: ignore[no-untyped-def]
    """Everything of a tenant's bank that a replay could change, but for when it was used."""
    return {
        e.id: (
            e.question,
            e.answer,
            e.source_engine,
            e.completion_tokens,
            e.quality_sum,
            e.quality_count,
            e.size_bytes,
        )
        for e in store.examples.page(TENANT)
    }


def now(store, examples: list[Example]) -> list[Example]:  # type: ignore[no-untyped-def]
    return list(store.examples.by_ids(TENANT, [e.id for e in examples]))


async def test_wrong_answers_are_mended_and_right_ones_stay(tmp_path: Path) -> None:
    some = facts(8)
    pairs = [(f, wrong(f) if n < 4 else right(f)) for n, f in enumerate(some)]
    async with bank_of(tmp_path, pairs) as (made, examples):
        lines = await made.plan(LOTS)
        assert [line.example_id for line in lines] == [e.id for e in examples], "highest gain first"
        assert made.jobs.runs() == [], "planning asks nobody"
        run = await made.run(LOTS)
        assert (run.state, run.asked_by) == ("done", "command")
        after = now(made.store, examples)
        assert [quality(e) for e in after] == [1.0] * 8
        assert [e.answer for e in after[4:]] == [e.answer for e in examples[4:]]
        assert [e.source_engine for e in after[:4]] == ["large"] * 4
        assert {s.result for s in made.jobs.steps(run.id)} <= {"replaced", "kept", "agreed"}
        (old,) = made.store.examples.versions.of(TENANT, examples[0].id)
        assert old.answer == examples[0].answer
        assert [line.example_id for line in await made.plan(LOTS)] == [], "none is replayed again at once"
        assert now(made.store, examples)[0].gain == 0, "what had gathered was the old answer's"
        assert made.jobs.asks.spent(run.id).usd == pytest.approx(
            sum(line.spent.usd for line in made.jobs.asks.spend(tenant=TENANT))
        )


async def test_a_replay_that_made_the_bank_worse_is_taken_back_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = facts(6)
    pairs = [(f, right(f)) for f in some]

    async def adversarial(self, ask, messages, ours, other, **how):  # type: ignore[no-untyped-def]
        found = await honest(self, ask, messages, ours, other, **how)
        from dataclasses import replace

        return None if found is None else replace(found, score=3.0, tie=False, quality=1.0)

    honest = Judge.compare
    monkeypatch.setattr(Judge, "compare", adversarial)
    # An engine that knows little takes the lead's place, and a judge that loves whatever is new.
    async with bank_of(tmp_path, pairs, engine="small", samples=2) as (made, examples):
        before = contents(made.store)
        run = await made.run(LOTS)
        worse = now(made.store, examples)
        assert sum(map(quality, worse)) < 6 - 2, "the bank is worse"
        done = await take_back_run(made.store, run.id)
        assert contents(made.store) == before
        assert done.restored >= 2
        assert done.left == 0
        again = await take_back_run(made.store, run.id)
        assert (again.restored, again.removed) == (0, 0), "twice is once"
        found = made.jobs.run(run.id)
        assert found is not None
        assert found.state == "undone"
        with pytest.raises(NotThatRun):
            await made.take_up(run.id)


async def test_what_a_person_changed_since_is_not_taken_back(tmp_path: Path) -> None:
    some = facts(3)
    async with bank_of(tmp_path, [(f, wrong(f)) for f in some]) as (
        made,
        examples,
    ):
        run = await made.run(LOTS)
        bank = made.store.examples
        bank.update(TENANT, examples[0].id, answer="A person says so.", kind="demonstration").result()
        one = await take_back_example(made.store, TENANT, examples[1].id)
        assert (one.restored, one.left) == (1, 0)
        assert (await take_back_example(made.store, "other", examples[2].id)).restored == 0
        done = await take_back_run(made.store, run.id)
        assert (done.restored, done.left) == (1, 1)
        first, second, third = now(made.store, examples)
        assert first.answer == "A person says so."
        assert [second.answer, third.answer] == [examples[1].answer, examples[2].answer]


async def test_what_people_gave_or_pinned_and_what_cannot_be_asked_again_is_left_alone(
    tmp_path: Path,
) -> None:
    some = facts(4)
    async with bank_of(tmp_path, [(f, wrong(f)) for f in some]) as (
        made,
        examples,
    ):
        bank = made.store.examples
        bank.update(TENANT, examples[0].id, kind="demonstration").result()
        bank.update(TENANT, examples[1].id, pinned=True).result()
        database(made.store).write(
            lambda c: c.execute(
                "UPDATE examples SET scope = 'of unknown words' WHERE id = ?", (examples[2].id,)
            )
        ).result()
        lines = await made.plan(LOTS)
        assert [line.example_id for line in lines] == [examples[3].id]
        run = await made.run(LOTS)
        assert [e.answer for e in now(made.store, examples[:3])] == [e.answer for e in examples[:3]]
        assert run.state == "done"


async def test_thin_neighbourhoods_get_variations_that_fit_and_go_with_what_they_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expand, "VARIATIONS", 6)
    some = kin(8)
    pairs = [(f, right(f)) for f in some]
    async with bank_of(tmp_path, pairs, used=0.1, expand=True) as (made, examples):
        store = made.store
        lines = await made.plan(LOTS)
        assert {line.kind for line in lines} == {"distil", "expand"}
        run = await made.run(LOTS)
        written = written_by(store.examples.versions, run.id)
        assert written
        new = store.examples.by_ids(TENANT, written)
        assert all(quality(e) == 1.0 for e in new)
        assert {e.source_engine for e in new} == {"large"}
        parents = [store.examples.versions.parent_of(TENANT, e.id) for e in new]
        assert set(parents) <= {e.id for e in examples}
        by_id = {e.id: e for e in examples}
        for child, parent in zip(new, parents, strict=True):
            assert parent is not None
            about = WORLD.read(child.question).facts[0].entity
            assert about == WORLD.read(by_id[parent].question).facts[0].entity, "nothing that drifted came in"
        mine = [e.id for e, parent in zip(new, parents, strict=True) if parent == parents[0]]
        assert store.examples.remove(TENANT, [parents[0]]).result() == 1 + len(mine)  # type: ignore[list-item]
        assert store.examples.by_ids(TENANT, mine) == []
        done = await take_back_run(store, run.id)
        assert done.removed == len(new) - len(mine)
        assert written_by(store.examples.versions, run.id) == []


async def test_no_tenant_s_text_is_ever_used_for_another(tmp_path: Path) -> None:
    """Neither read, nor asked about, nor written, however near the other's questions are."""
    one = facts(2)
    pairs = [(f, wrong(f)) for f in (*one, *one)]
    of = (TENANT, TENANT, OTHER, OTHER)
    async with bank_of(tmp_path, pairs, tenant_of=lambda n: of[n]) as (made, examples):
        store = made.store
        theirs = [e.answer for e in examples[2:]]
        lines = await made.plan(LOTS, TENANT)
        assert {line.tenant for line in lines} == {TENANT}
        run = await made.run(LOTS, TENANT)
        assert {s.plan.tenant for s in made.jobs.steps(run.id)} == {TENANT}
        assert database(store).read().execute("SELECT DISTINCT tenant FROM replay_asks").fetchall() == [
            (TENANT,)
        ]
        assert [e.answer for e in store.examples.by_ids(OTHER, [e.id for e in examples[2:]])] == theirs
        assert store.examples.totals(OTHER).examples == 2
        assert all(quality(e) == 1.0 for e in now(store, examples[:2]))
        await made.run(LOTS)
        assert all(quality(e) == 1.0 for e in store.examples.page(OTHER)), "each is replayed for itself"


async def test_a_run_that_ran_out_of_money_goes_on_with_more(tmp_path: Path) -> None:
    some = facts(6)
    async with bank_of(tmp_path, [(f, wrong(f)) for f in some]) as (
        made,
        examples,
    ):
        few = ReplayBudget(usd=0.012)
        made.jobs.want(TENANT, few, asked_by="admin").result()
        (wanted,) = made.jobs.runs(states=("wanted",))
        planned = await made.plan(LOTS)
        made.jobs.plan(wanted.id, planned).result()
        stopped = await made.take_up(wanted.id)
        assert stopped.state == "stopped"
        assert made.jobs.asks.spent(wanted.id).most_usd <= 0.012
        left = made.unfinished()
        assert left is not None
        assert left.id == wanted.id
        assert (await made.take_up(wanted.id, budget=LOTS)).state == "done"
        assert made.unfinished() is None
        assert all(quality(e) == 1.0 for e in now(made.store, examples))
        async with opened(config(tmp_path)) as beside:
            async with made._only_one():
                with pytest.raises(AnotherReplayRuns):
                    await beside.run(LOTS)


async def test_what_is_missing_is_named(tmp_path: Path) -> None:
    from understudy.settings.file import parse_config

    data = settings(tmp_path)
    data["replay"].pop("judge")
    with pytest.raises(CannotReplay, match=r"replay\.judge"):
        async with opened(parse_config(data)):
            pass
