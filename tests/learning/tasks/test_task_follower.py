"""What a person switches, another process's worker knows soon, and no request waits for it."""

from __future__ import annotations

from pathlib import Path

from learning.tasks.task_follower import TaskFollower
from router.tasks.matching import Tasks
from store import Store
from store.tasks.tasks import TaskRow
from tests.patience import wait_for
from tests.router.tasks.test_matching import INTENT, ask


def test_a_worker_follows_what_another_process_switches(tmp_path: Path) -> None:
    worker, other = Store.open(tmp_path), Store.open(tmp_path)
    tasks = Tasks("m", [INTENT], max_loss=0.05, by_enum=False)
    other.tasks.known.add(TaskRow("a1", "m", "intent", "configured"), most=9).result(30)
    follower = TaskFollower(worker.tasks.known, [tasks], look_every_s=0.01)
    follower.start()
    try:

        def paused() -> bool:
            posed = tasks.posed(ask())
            return posed is not None and posed.task.paused

        assert not paused()
        other.tasks.known.switch("intent", "paused", at_s=1.0, by="ann").result(30)
        wait_for(paused, "the task paused")
        other.tasks.known.switch("intent", "on", at_s=2.0, by="ann").result(30)
        wait_for(lambda: not paused(), "the task on again")
    finally:
        follower.stop()
        worker.close()
        other.close()
