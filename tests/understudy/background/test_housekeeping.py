"""Chores come round, also after one failed, and stop when told to."""

from __future__ import annotations

import threading

from understudy.background.housekeeping import Chore, Housekeeper


def test_a_failing_chore_keeps_neither_itself_nor_the_others_from_coming_round() -> None:
    failed, done = threading.Semaphore(0), threading.Semaphore(0)

    def fail() -> None:
        failed.release()
        raise OSError

    keeper = Housekeeper([Chore("bad", 0.01, fail), Chore("good", 0.01, done.release)])
    keeper.start()
    for _ in range(3):
        assert failed.acquire(timeout=60) and done.acquire(timeout=60)
    keeper.stop()


def test_stopping_does_not_wait_for_a_chore_that_is_not_due() -> None:
    ran = threading.Event()
    keeper = Housekeeper([Chore("rare", 3600, ran.set)])
    keeper.start()
    keeper.stop()
    assert not ran.is_set()


def test_a_chore_that_is_added_later_is_done_at_its_time() -> None:
    ran = threading.Event()
    keeper = Housekeeper([Chore("rare", 3600, lambda: None)])
    keeper.start()
    keeper.add([Chore("often", 0.01, ran.set)])
    assert ran.wait(60)
    keeper.stop()
