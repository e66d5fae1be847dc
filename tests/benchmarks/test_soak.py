from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from benchmarks.soak.__main__ import SECRETS, configuration, report, running
from benchmarks.soak.readings import Process, Size, slope
from benchmarks.soak.traffic import Calls
from understudy.settings.file import parse_config


def process(*rss_mib: float, files: int = 10) -> Process:
    made = Process("worker 1", 1)
    made.rss_mib = list(rss_mib)
    made.requests = [1000.0 * n for n in range(len(rss_mib))]
    made.files = [files] * len(rss_mib)
    made.threads = [5] * len(rss_mib)
    return made


def test_the_warm_up_counts_for_nothing() -> None:
    assert process(*range(50, 200, 10), *[200.1, 200, 199.9] * 5).grown()["ok"]


def test_memory_that_grows_steadily_is_found_out() -> None:
    grown = process(*(200 + 0.5 * n for n in range(30))).grown()
    assert not grown["ok"] and grown["mib_per_10000"][1] == 5.0


def test_a_slope_lies_in_its_interval() -> None:
    dice = random.Random(3)
    found = slope(list(range(200)), [0.1 * n + dice.gauss(0, 1) for n in range(200)])
    assert found.low < 0.1 < found.high and found.high - found.low < 0.02


def test_readings_that_hang_together_say_less() -> None:
    dice = random.Random(4)
    apart = [dice.gauss(0, 1) for _ in range(200)]
    together = [sum(apart[n : n + 5]) / 5**0.5 for n in range(196)]
    widths = [(one := slope(list(range(196)), values)).high - one.low for values in (apart[:196], together)]
    assert widths[1] > 1.5 * widths[0]


@pytest.mark.parametrize("what", ["files", "threads"])
def test_what_is_never_closed_is_found_out(what: str) -> None:
    leaking = process(*([200.0] * 30))
    setattr(leaking, what, [10 + 4 * n for n in range(30)])
    assert not leaking.grown()["ok"]


def test_a_journal_that_grows_is_found_out(tmp_path: Path) -> None:
    size = Size("journals", tmp_path, "*.journal")
    for n in range(8):
        (tmp_path / "a.journal").write_bytes(b"\0" * n * 2**20)
        size.read()
    assert (
        size.mib[-1] == 7 and not Size("", tmp_path, "", mib=[float(3 * n) for n in range(8)]).grown()["ok"]
    )
    assert Size("", tmp_path, "", mib=[5.0] * 8).grown()["ok"]


def test_users_and_ids_are_new_every_time() -> None:
    made = Calls(SECRETS)
    calls = [made.one() for _ in range(3000)]
    users = [dict(call.headers)["x-understudy-user"] for kind, call in calls if kind == "user"]
    assert len(users) > 100 and len(set(users)) == len(users)
    assert {call.key for _, call in calls} >= set(SECRETS)


def test_its_configuration_is_one(tmp_path: Path) -> None:
    config = parse_config(configuration("http://127.0.0.1:9/v1", tmp_path, 0))
    assert config.listen.workers == 2 and config.memory is not None


@pytest.mark.slow
def test_it_runs(tmp_path: Path) -> None:
    with running(tmp_path, rate=20) as soak:
        asyncio.run(soak.run(0.3, texts=20))
        text, figures = report(soak, 0.3)
    assert figures["requests"] > 330 and figures["reloads"] == 10, text
    assert {row["name"].split()[0] for row in figures["processes"]} >= {"supervisor", "worker"}, text
    assert figures["files"][0]["mib"][-1] > 0, text
