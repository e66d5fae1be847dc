"""A run asks for nothing twice, stops asking when it is told to wait, keeps its budget, and survives being killed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import web

from engines.engine import EngineRequest
from engines.errors import ConnectFailed
from learning.replay.run import LEASE, Progress
from store.database import Database
from store.jobs.leases import Leases
from store.jobs.replay_jobs import AnotherReplayRuns, ReplayJobs
from store.jobs.replay_records import ReplayBudget
from tests.flow.line import Asked, completion, upstream
from tests.learning.replay.replaying import ASKS, lead, planned, runner
from tests.patience import until

ROOT = Path(__file__).parents[3]


def rows(db: Database, state: str) -> int:
    (count,) = db.read().execute("SELECT count(*) FROM replay_asks WHERE state = ?", (state,)).fetchone()
    return int(count)


async def test_a_run_carries_out_its_plan_and_every_cent_of_it_stands_in_the_books(tmp_path: Path) -> None:
    db, jobs, run = planned(tmp_path, steps=5)
    seen: list[Progress] = []

    async def watch(progress: Progress) -> None:
        seen.append(progress)

    ended = await runner(jobs, lead()).run(run, progress=watch)
    assert (ended.state, ended.note, jobs.progress(run)) == ("done", "", {"done": 5})
    spent = jobs.asks.spent(run)
    (line,) = jobs.asks.spend(run_id=run)
    assert line.asks == 5 * ASKS
    assert line.spent == spent
    assert spent.usd > 0 == spent.unknown_usd
    assert seen[-1].done == seen[-1].steps == 5
    db.close()


async def test_no_request_begins_while_the_gate_is_shut(tmp_path: Path) -> None:
    db, jobs, run = planned(tmp_path, steps=4)
    quiet = asyncio.Event()
    quiet.set()
    began = 0

    async def may_go_on() -> None:
        nonlocal began
        await quiet.wait()
        began += 1
        if began == 5:
            quiet.clear()

    going = asyncio.create_task(runner(jobs, lead()).run(run, may_go_on))
    while quiet.is_set():
        await asyncio.sleep(0.01)
    # Four work at once: those that were let through before it shut may end.
    await until(lambda: state_of(jobs, run) == ("paused", "waits for low traffic"), "it paused")
    asked = rows(db, "paid") + rows(db, "asked")
    await asyncio.sleep(0.3)
    assert rows(db, "paid") == asked <= 5
    quiet.set()
    assert (await going).state == "done"
    assert rows(db, "paid") == 4 * ASKS
    db.close()


def state_of(jobs: ReplayJobs, run: int) -> tuple[str, str] | None:
    found = jobs.run(run)
    return None if found is None else (found.state, found.note)


async def test_a_budget_ends_the_run_before_it_is_broken_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    db, jobs, run = planned(tmp_path, steps=6, budget=ReplayBudget(usd=0.008))
    stopped = await runner(jobs, lead()).run(run)
    spent = jobs.asks.spent(run)
    assert 0 < spent.most_usd <= 0.008
    assert stopped.state == "stopped" and "is spent" not in stopped.note, "something is left"
    left, most = re.findall(r"\$([\d.]+) of its \$0\.008 are left.* up to \$([\d.]+)", stopped.note)[0]
    assert float(left) == pytest.approx(0.008 - spent.most_usd, rel=0.01) and float(left) < float(most)
    paid = rows(db, "paid")
    jobs.widen(run, ReplayBudget()).result()
    assert (await runner(jobs, lead()).run(run)).state == "done"
    assert rows(db, "paid") == 6 * ASKS > paid
    db.close()


async def test_what_others_have_set_aside_refuses_a_step_only_until_they_have_settled(tmp_path: Path) -> None:
    """A request's greatest cost is set aside while it is asked, and is more than it costs in the end."""
    (tmp_path / "without").mkdir()
    db, jobs, run = planned(tmp_path / "without", steps=6)
    await runner(jobs, lead()).run(run)
    whole = jobs.asks.spent(run).usd
    db.close()
    # Enough for all, and for what one request may cost beyond; four at once may set aside more.
    db, jobs, run = planned(tmp_path, steps=6, budget=ReplayBudget(usd=whole + 0.0027))
    ended = await runner(jobs, lead(pace=0.2)).run(run)
    assert (ended.state, ended.note, jobs.progress(run)) == ("done", "", {"done": 6})
    db.close()


async def test_a_person_stops_a_run_and_one_that_is_cancelled_goes_on_later(tmp_path: Path) -> None:
    db, jobs, run = planned(tmp_path, steps=20)
    going = asyncio.create_task(runner(jobs, lead(pace=1.0)).run(run))
    while rows(db, "paid") < 4:
        await asyncio.sleep(0.01)
    jobs.ask_to_stop(run).result()
    ended = await going
    assert (ended.state, ended.note) == ("stopped", "a person stopped it")
    going = asyncio.create_task(runner(jobs, lead(pace=1.0)).run(run))
    while rows(db, "paid") < 12:
        await asyncio.sleep(0.01)
    going.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await going
    assert state_of(jobs, run) == ("interrupted", "its process was stopped"), "written before anybody looks"
    jobs.interrupt_dead().result()
    assert (state_of(jobs, run) or "")[0] == "interrupted"
    unknown = rows(db, "unknown")
    assert unknown <= 4, "what was under way, and nothing else"
    assert (await runner(jobs, lead()).run(run)).state == "done"
    assert rows(db, "paid") == 20 * ASKS
    db.close()


async def test_a_second_run_does_not_begin_beside_the_first(tmp_path: Path) -> None:
    db, jobs, run = planned(tmp_path, steps=3)
    second = jobs.want("t", ReplayBudget(), asked_by="schedule").result()
    shut = asyncio.Event()
    going = asyncio.create_task(runner(jobs, lead()).run(run, shut.wait))  # type: ignore[arg-type]
    while (found := jobs.run(run)) is None or found.state == "wanted":
        await asyncio.sleep(0.01)
    with pytest.raises(AnotherReplayRuns):
        await runner(jobs, lead()).run(second)
    shut.set()
    await going
    db.close()


class Silent:
    """An engine that cannot be reached."""

    info = lead().info
    load = lead().load

    @contextlib.asynccontextmanager
    async def stream(self, request: EngineRequest):  # type: ignore[no-untyped-def]
        raise ConnectFailed("nobody there")
        yield


async def test_engines_that_give_no_answer_end_the_run_and_cost_nothing(tmp_path: Path) -> None:
    db, jobs, run = planned(tmp_path, steps=40)
    ended = await runner(jobs, Silent()).run(run)  # type: ignore[arg-type]
    assert (ended.state, ended.note) == ("failed", "the engines gave no answer")
    assert jobs.asks.spent(run).most_usd == 0
    assert rows(db, "failed") < 40
    assert (await runner(jobs, lead()).run(run)).state == "done", "once they are back it goes on"
    db.close()


@pytest.mark.slow
async def test_killed_again_and_again_it_pays_for_nothing_twice(tmp_path: Path) -> None:
    db, jobs, run = planned(tmp_path, steps=30)
    asked: Counter[str] = Counter()
    rng = random.Random(7)

    async def script(request: web.Request, one: Asked) -> web.StreamResponse:
        asked[one.json["messages"][0]["content"]] += 1
        await asyncio.sleep(rng.uniform(0, 0.02))
        return web.json_response(completion("An answer."))

    kills = 0
    async with upstream() as server:
        server.script = script
        while True:
            child = await asyncio.create_subprocess_exec(
                *(
                    sys.executable,
                    "-m",
                    "tests.learning.replay.child_that_replays",
                    str(tmp_path),
                    server.url,
                ),
                stdout=subprocess.PIPE,
                cwd=ROOT,
            )
            assert child.stdout is not None
            assert await child.stdout.readline() == b"begins\n"
            if kills == 3:
                said = (await child.stdout.read()).decode().splitlines()
                assert said[-1] == "done"
                assert await child.wait() == 0
                break
            assert not Leases(db).lease(LEASE).take()
            for _ in range(rng.randrange(6, 20)):
                await child.stdout.readline()
            # Anywhere between two answers: before a note is committed, while it is asked, before it is paid.
            await asyncio.sleep(rng.uniform(0, 0.02))
            child.kill()
            await child.wait()
            kills += 1
    keys = (
        db.read()
        .execute(
            "SELECT key, step_id, sum(state = 'paid'), sum(state = 'unknown') FROM replay_asks GROUP BY key, step_id"
        )
        .fetchall()
    )
    assert len(keys) == 30 * ASKS
    assert {paid for _, _, paid, _ in keys} == {1}
    unknown = sum(each[3] for each in keys)
    assert unknown <= kills * 4, "at most what four workers had under way"
    assert sum(asked.values()) <= len(keys) + unknown, "whatever an engine was asked stands in the books"
    assert jobs.asks.spent(run).unknown_usd > 0 or unknown == 0
    db.close()
