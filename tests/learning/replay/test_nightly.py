"""What is due is taken up once, stops with its window, waits for low traffic, and is resumed after an interruption."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

import pytest

from learning.alone import alone
from learning.replay.asking import MayGoOn, always
from learning.replay.nightly import Due, Replayer, Schedule, Window, due
from learning.replay.off_peak import OffPeakGate, Quiet
from learning.replay.run import LEASE
from store.jobs.leases import Leases, NotAlone
from store.jobs.live_load import LoadReport, Standing, live_load
from store.jobs.replay_jobs import AnotherReplayRuns, ReplayJobs
from store.jobs.replay_records import NewStep, ReplayBudget, ReplayRun, RunState
from store.sqlite.database import Database
from tests.learning.replay.replaying import ASKS, lead, runner
from tests.patience import until

ROOT = Path(__file__).parents[3]
H = 3600.0
NIGHT = 1_000_000 * 86_400.0 + 2 * H
BUDGET = ReplayBudget(usd=1.0)
WINDOW = Window(NIGHT, NIGHT + 6 * H)


def a_run(id: int, asked_by: str, state: RunState, created_at_s: float = NIGHT + 1) -> ReplayRun:
    return ReplayRun(id, "", asked_by, state, created_at_s, None, None, BUDGET, False, "")


@pytest.mark.parametrize(
    ("runs", "window", "expected"),
    [
        ([], None, None),
        ([], WINDOW, Due(None, WINDOW.ends_s)),
        ([a_run(1, "admin", "wanted")], None, Due(1, None)),
        ([a_run(2, "admin", "wanted"), a_run(1, "admin", "interrupted")], WINDOW, Due(1, None)),
        ([a_run(1, "command", "interrupted")], None, None),
        ([a_run(1, "command", "wanted")], WINDOW, Due(None, WINDOW.ends_s)),
        ([a_run(1, "schedule", "interrupted", NIGHT - 20 * H)], WINDOW, Due(1, WINDOW.ends_s)),
        ([a_run(1, "schedule", "interrupted")], None, None),
        ([a_run(1, "schedule", "wanted")], WINDOW, Due(1, WINDOW.ends_s)),
        ([a_run(1, "schedule", "done", NIGHT - 20 * H)], WINDOW, Due(None, WINDOW.ends_s)),
        ([a_run(1, "schedule", "done")], WINDOW, None),
        ([a_run(1, "schedule", "failed")], WINDOW, None),
        ([a_run(1, "schedule", "stopped")], WINDOW, None),
    ],
)
def test_what_is_due(runs: list[ReplayRun], window: Window | None, expected: Due | None) -> None:
    assert due(runs, window) == expected


@dataclass
class Scene:
    """A real store, a plan of some steps for every run, a clock that is set by hand."""

    folder: Path
    db: Database
    now_s: float = NIGHT + 60
    pace: float = 0.0
    steps: int = 4
    begun: list[int] = field(default_factory=list)

    @property
    def leases(self) -> Leases:
        return Leases(self.db)

    @property
    def jobs(self) -> ReplayJobs:
        return ReplayJobs(self.db)

    async def carry_out(self, run_id: int, may_go_on: MayGoOn) -> ReplayRun:
        async with self._only_one():
            await asyncio.wrap_future(self.jobs.interrupt_dead())
            return await self._run(run_id, may_go_on)

    @asynccontextmanager
    async def _only_one(self) -> AsyncIterator[None]:
        try:
            async with alone(self.leases, LEASE):
                yield
        except NotAlone:
            raise AnotherReplayRuns from None

    async def _run(self, run_id: int, may_go_on: MayGoOn) -> ReplayRun:
        self.begun.append(run_id)
        plan = [NewStep("t", "distil", n + 1, 0.1, 0.1, 0.001, 100, 0.1) for n in range(self.steps)]
        await asyncio.wrap_future(self.jobs.plan(run_id, plan))
        return await runner(self.jobs, lead(self.pace)).run(run_id, may_go_on)

    def replayer(self, may_go_on: MayGoOn = always) -> Replayer:
        schedule = Schedule("0 2 * * *", UTC, 6 * H)
        return Replayer(
            self.jobs,
            self.carry_out,
            may_go_on,
            schedule,
            BUDGET,
            self.leases,
            clock=lambda: self.now_s,
            look_every_s=0.01,
        )

    def paid(self) -> int:
        return int(
            self.db.read().execute("SELECT count(*) FROM replay_asks WHERE state = 'paid'").fetchone()[0]
        )


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    db = Database.open(tmp_path / "understudy.db")
    made = Scene(tmp_path, db)
    monkeypatch.setattr("store.jobs.replay_jobs.time.time", lambda: made.now_s)
    yield made
    db.close()


async def test_a_night_has_one_run_and_the_next_night_another(scene: Scene) -> None:
    replayer = scene.replayer()
    ended = await replayer.step()
    assert ended is not None and (ended.state, ended.asked_by, ended.budget) == ("done", "schedule", BUDGET)
    assert await replayer.step() is None
    scene.now_s += 23 * H
    assert await replayer.step() is None, "by day"
    scene.now_s += H
    again = await replayer.step()
    assert again is not None and again.id != ended.id


async def test_a_run_that_its_window_cut_short_goes_on_in_the_next_without_paying_twice(scene: Scene) -> None:
    scene.pace, scene.steps = 20.0, 40
    scene.now_s = WINDOW.ends_s - 1.0
    cut = await scene.replayer().step()
    # On a busy machine the window may be over before the run has begun.
    assert cut is not None and cut.state in ("interrupted", "wanted")
    paid = scene.paid()
    scene.now_s = NIGHT + 24 * H
    scene.pace = 0.0
    ended = await scene.replayer().step()
    assert ended is not None and (ended.id, ended.state) == (cut.id, "done")
    assert scene.paid() == 40 * ASKS > paid


async def test_two_replayers_on_one_folder_make_one_run(scene: Scene) -> None:
    scene.pace = 1.0
    first, second = scene.replayer(), scene.replayer()
    ended = await asyncio.gather(first.step(), second.step())
    assert len([run for run in ended if run is not None]) == 1
    assert len(scene.begun) == 1 and scene.paid() == scene.steps * ASKS


async def test_a_replay_that_a_person_runs_is_not_disturbed_and_what_was_due_stays_due(scene: Scene) -> None:
    async with alone(scene.leases, LEASE):
        assert await scene.replayer().step() is None
        assert await scene.replayer().step() is None
    assert not scene.begun
    ended = await scene.replayer().step()
    assert ended is not None and ended.state == "done"
    assert len(scene.jobs.runs()) == 1


async def test_traffic_pauses_a_run_and_its_end_lets_it_go_on(scene: Scene) -> None:
    scene.pace, scene.steps = 1.0, 60
    gate = OffPeakGate(lambda: live_load(scene.folder), Quiet(1, 0.05), look_every_s=0.01)
    worker = LoadReport(scene.folder)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(gate.watch())
        running = group.create_task(scene.replayer(gate.may_go_on).step())
        await until(lambda: scene.paid() >= 6, "the run at work")
        worker.say(Standing(5))
        await until(lambda: scene.jobs.runs()[0].state == "paused", "it paused")
        # What was under way has ended; nothing new begins however long the traffic lasts.
        await until(lambda: scene.jobs.asks.spent(scene.begun[0]).unknown_usd == 0, "nothing under way")
        asked = scene.paid()
        await asyncio.sleep(0.3)
        assert scene.paid() == asked < 60 * ASKS
        worker.say(Standing(0))
        ended = await running
        watching.cancel()
    worker.close()
    assert ended is not None and ended.state == "done"
    assert scene.paid() == 60 * ASKS


async def test_a_night_that_never_is_quiet_leaves_no_run(scene: Scene) -> None:
    gate = OffPeakGate(lambda: live_load(scene.folder), Quiet(0, 0))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await scene.replayer(gate.may_go_on).step()
    assert scene.jobs.runs() == []


async def test_a_run_that_cannot_even_be_planned_fails_once(scene: Scene) -> None:
    async def broken(run_id: int, may_go_on: MayGoOn) -> ReplayRun:
        raise RuntimeError("no plan")

    scene.carry_out = broken  # type: ignore[method-assign]
    replayer = scene.replayer()
    with pytest.raises(RuntimeError):
        await replayer.step()
    assert await replayer.step() is None
    assert [(run.state, run.note) for run in scene.jobs.runs()] == [("failed", "RuntimeError")]


async def test_a_killed_replayers_run_is_gone_on_with_without_paying_twice(
    scene: Scene, tmp_path: Path
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.learning.replay.child_that_takes_up", str(tmp_path), str(scene.now_s)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        await asyncio.to_thread(child.stdout.readline)
        await until(lambda: scene.paid() >= 10, "the run at work")
        assert await scene.replayer().step() is None, "a second one, while the first lives"
    finally:
        child.kill()
        child.communicate()
    ended = await scene.replayer().step()
    assert ended is not None and ended.state == "done"
    assert len(scene.jobs.runs()) == 1
    assert scene.paid() == 40 * ASKS
