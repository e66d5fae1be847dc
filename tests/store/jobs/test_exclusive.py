"""A chore of many workers is done by one at a time, and a failure neither ends it nor keeps the others out."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

from store.jobs.exclusive import again_while_alone


def start(chore, lock: Path, stopping: threading.Event) -> threading.Thread:  # type: ignore[no-untyped-def]
    thread = threading.Thread(
        target=again_while_alone,
        args=(chore, lock, stopping),
        kwargs={"every_s": 0.01, "failed": "chore_failed"},
    )
    thread.start()
    return thread


def test_nobody_works_while_another_holds_the_lock(tmp_path: Path) -> None:
    lock, stopping, worked = tmp_path / "lock", threading.Event(), threading.Event()
    with lock.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        thread = start(worked.set, lock, stopping)
        assert not worked.wait(0.2)
    assert worked.wait(60), "the other is gone"
    stopping.set()
    thread.join()


def test_a_chore_that_fails_is_done_again_and_lets_go_of_the_lock(tmp_path: Path) -> None:
    lock, stopping, tries = tmp_path / "lock", threading.Event(), []
    twice = threading.Event()

    def fail() -> None:
        tries.append(1)
        if len(tries) == 2:
            twice.set()
        raise OSError("disk full")

    thread = start(fail, lock, stopping)
    assert twice.wait(60)
    stopping.set()
    thread.join()
    with lock.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
