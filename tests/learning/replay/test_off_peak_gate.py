"""The gate closes as soon as load rises, opens only after calm, and takes what it cannot see for busy."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.journey import Journey
from learning.replay import off_peak_gate
from learning.replay.off_peak_gate import OffPeakGate, Quiet
from store.jobs.live_load import LiveLoad, live_load
from understudy.background import load_report
from understudy.background.load_report import LoadReporter

JOURNEY = Journey("id", 0.0, 0.0, "POST", "/v1/chat/completions")


class Scene:
    """A gate whose world is told what to be."""

    def __init__(self, limit: int = 2, calm_s: float = 10) -> None:
        self.load = LiveLoad(1, 0, 0)
        self.now_s = 0.0
        self.broken = False
        self.gate = OffPeakGate(self._look, Quiet(limit, calm_s), clock=lambda: self.now_s)

    def _look(self) -> LiveLoad:
        if self.broken:
            raise PermissionError("no")
        return self.load

    def after(self, seconds: float, in_flight: int, silent: int = 0) -> bool:
        self.now_s += seconds
        self.load = LiveLoad(1, in_flight, silent)
        self.gate.step()
        return self.gate.open


async def test_it_closes_at_the_first_sight_of_load_and_opens_after_calm() -> None:
    scene = Scene()
    scene.gate.step(at_once=True)
    assert scene.gate.open, "quiet right now: nothing to wait for at the start"
    assert scene.after(0.2, 2), "the limit itself is quiet"
    assert not scene.after(0.2, 3)
    assert not scene.after(0.2, 0)
    assert not scene.after(9.9, 1)
    assert not scene.after(0.05, 5), "calm is counted from the last load on"
    assert not scene.after(0.2, 0)
    assert not scene.after(9.9, 0)
    assert scene.after(0.1, 0)
    assert scene.gate.pauses == 1


async def test_a_silent_worker_or_an_unreadable_folder_counts_as_load() -> None:
    scene = Scene(calm_s=0)
    assert scene.after(0, 0)
    assert not scene.after(1, 0, silent=1)
    assert scene.after(1, 0)
    scene.broken = True
    assert not scene.after(1, 0)


async def test_who_waits_is_let_through_when_it_opens_and_may_give_up() -> None:
    scene = Scene(calm_s=0)
    scene.after(0, 9)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(scene.gate.may_go_on()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        assert [w.done() for w in waiting] == [True, False, False]
        scene.after(1, 0)
    assert all(w.done() for w in waiting)


async def test_a_real_workers_requests_close_and_open_it(tmp_path: Path) -> None:
    worker = LoadReporter(tmp_path, every_s=0.01)
    worker.start()
    gate = OffPeakGate(lambda: live_load(tmp_path), Quiet(1, 0), look_every_s=0.01)
    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(gate.watch())
            await asyncio.wait_for(gate.may_go_on(), 60)
            for _ in range(2):
                worker.began()
            async with asyncio.timeout(60):
                while gate.open:
                    await asyncio.sleep(0.005)
            worker.ended(JOURNEY)
            await asyncio.wait_for(gate.may_go_on(), 60)
            watching.cancel()
    finally:
        await asyncio.to_thread(worker.stop)
    assert live_load(tmp_path) == LiveLoad(0, 0, 0)


def test_a_rise_is_seen_within_a_second() -> None:
    """At worst one interval of each of the two, with as much again for scheduling."""
    assert 2 * (load_report._EVERY_S + off_peak_gate._LOOK_S) < 1
