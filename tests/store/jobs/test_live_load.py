"""What workers say of their load is added up; the dead are not believed, and silence is not taken for quiet."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from store.jobs import live_load as module
from store.jobs.live_load import LiveLoad, LoadReport, Standing, live_load, recorded_to_s, standings

CHILD = """
import sys, time
from pathlib import Path
from store.jobs.live_load import LoadReport, Standing
report = LoadReport(Path(sys.argv[1]))
report.say(Standing(7))
print("said", flush=True)
time.sleep(600)
"""


def test_nobody_there_is_no_load(tmp_path: Path) -> None:
    assert live_load(tmp_path) == LiveLoad(0, 0, 0)


def test_words_of_all_workers_are_added_up(tmp_path: Path) -> None:
    one, other = LoadReport(tmp_path), LoadReport(tmp_path)
    one.say(Standing(3))
    other.say(Standing(4))
    assert live_load(tmp_path) == LiveLoad(2, 7, 0)
    one.say(Standing(0))
    assert live_load(tmp_path) == LiveLoad(2, 4, 0)
    one.close()
    other.close()
    assert live_load(tmp_path) == LiveLoad(0, 0, 0)


def test_a_killed_worker_is_not_counted_and_leaves_nothing_behind(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None and child.stdout.readline() == b"said\n"
        assert live_load(tmp_path) == LiveLoad(1, 7, 0)
    finally:
        child.kill()
        child.communicate()
    assert live_load(tmp_path) == LiveLoad(0, 0, 0)
    assert not list((tmp_path / "live").iterdir())


def test_a_living_worker_that_says_nothing_counts_as_silent_not_as_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = LoadReport(tmp_path)
    report.say(Standing(2))
    now_s = time.time()
    monkeypatch.setattr(module.time, "time", lambda: now_s + 60)
    assert live_load(tmp_path) == LiveLoad(1, 2, 1)
    report.say(Standing(2))
    assert live_load(tmp_path) == LiveLoad(1, 2, 0)
    report.close()


def test_a_worker_that_had_no_room_for_a_word_is_behind(tmp_path: Path) -> None:
    report = LoadReport(tmp_path)
    (file,) = (tmp_path / "live").iterdir()
    os.truncate(file, 0)
    assert recorded_to_s(tmp_path) == 0.0 and live_load(tmp_path).silent == 1
    report.close()
    assert recorded_to_s(tmp_path) == math.inf


def test_what_workers_say_of_their_capacity_is_read_back(tmp_path: Path) -> None:
    said = Standing(3, 12.5, 0.75, 120.5, 2, (7, 6, 0, 0, 2**32 - 1))
    one, other = LoadReport(tmp_path), LoadReport(tmp_path)
    one.say(said)
    assert sorted(standings(tmp_path)) == [Standing(), said]
    one.close()
    other.close()
    assert standings(tmp_path) == []
