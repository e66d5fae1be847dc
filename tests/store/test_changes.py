"""The thread that looks for news: a failure is not its end, who wakes it need not wait, and it stops when told."""

from __future__ import annotations

from structlog.testing import capture_logs

from store.changes import Follower, Followers
from tests.patience import wait_for


class _Looks(Follower):
    def __init__(self, every_s: float) -> None:
        super().__init__("looks", every_s)
        self.looked = 0

    def look(self) -> None:
        self.looked += 1
        if self.looked == 1:
            raise OSError("the disk is full")


def test_it_looks_again_after_a_failure_which_the_log_names() -> None:
    poller = _Looks(0.001)
    with capture_logs() as said:
        poller.start()
        wait_for(lambda: poller.looked > 2, "looks after the failure")
        poller.stop()
    assert [(each["event"], each["follower"]) for each in said] == [("follower_failed", "looks")]


def test_who_waits_for_something_has_it_look_before_it_is_due() -> None:
    poller = _Looks(3600)
    poller.start()
    assert poller._waited(lambda: poller.looked > 2, 60)
    poller.stop()
    assert not poller._waited(lambda: False, 0.01)


def test_it_stops_before_it_is_due_also_where_it_never_began() -> None:
    _Looks(3600).stop()
    started = _Looks(3600)
    started.start()
    assert started.stop()


def test_one_thread_looks_for_several_each_at_its_own_pace_and_at_once_for_who_is_told() -> None:
    rare, often = _Looks(3600), _Looks(0.001)
    together = Followers()
    together.add(rare)
    together.add(often)
    wait_for(lambda: often.looked > 3, "looks of the one that is due often")
    assert rare.looked == 1
    assert rare._waited(lambda: rare.looked > 1, 60)
    assert rare.stop() and often.stop()
    wait_for(lambda: not together._runs, "the end of a thread with nobody to look for")
