"""What workers of any machine say of their load is added up; silence is not taken for quiet."""

from __future__ import annotations

import time

import pytest

from store import Store
from store.jobs import worker_loads as module
from store.jobs.live_load import Standing
from tests.patience import eventually


def test_the_load_of_all_workers_is_added_up_until_they_go(store: Store) -> None:
    loads = store.jobs.loads
    assert loads.now() == module.LiveLoad(0, 0, 0)
    loads.say("w1", Standing(3, time.monotonic())).result(30)
    loads.say("w2", Standing(4, time.monotonic())).result(30)
    loads.say("w1", Standing(2, time.monotonic())).result(30)
    assert loads.now() == module.LiveLoad(2, 6, 0)
    loads.gone("w2").result(30)
    assert loads.now() == module.LiveLoad(1, 2, 0)


def test_who_says_nothing_is_silent_and_at_last_gone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = store.jobs.loads
    loads.say("w1", Standing(3, time.monotonic())).result(30)
    monkeypatch.setattr(module, "_SILENT_S", 0.0)
    assert eventually(lambda: loads.now() == module.LiveLoad(1, 3, 1))
    monkeypatch.setattr(module, "_BELIEVED_S", 0.0)
    assert eventually(lambda: loads.now() == module.LiveLoad(0, 0, 0))


def test_what_is_recorded_everywhere_is_as_old_as_the_one_that_is_furthest_behind_says(store: Store) -> None:
    loads, began_s = store.jobs.loads, time.monotonic()
    assert loads.recorded_to_s() >= began_s, "nobody is behind"
    loads.say("w1", Standing(0, began_s)).result(30)
    loads.say("w2", Standing(0, began_s - 60)).result(30)
    assert loads.recorded_to_s() <= began_s - 60
    loads.say("w2", Standing(0, time.monotonic())).result(30)
    assert began_s - 60 < loads.recorded_to_s() <= began_s


def test_what_workers_say_of_their_capacity_is_read_back(store: Store) -> None:
    said = Standing(3, time.monotonic(), 0.75, 120.5, 2, (7, 6, 0, 0, 0))
    store.jobs.loads.say("w1", said).result(30)
    store.jobs.loads.say("w2", Standing()).result(30)
    assert store.jobs.loads.standings() == [said._replace(recorded_to_s=0.0), Standing()]
