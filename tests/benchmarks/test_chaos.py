from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.chaos.__main__ import named, report, run
from benchmarks.chaos.faults import KINDS, ORDERS, Fault
from benchmarks.chaos.site import configuration
from benchmarks.chaos.traffic import Asked
from benchmarks.chaos.upstream import pieces, tagged
from benchmarks.chaos.verdict import Charged, charged, excused, money, recovered_s, unanswered
from understudy.settings.file import parse_config

WORKER = Fault("worker killed", 100.0, 100.1)
DISK = Fault("disk full", 200.0, 205.0)
ENGINE = Fault("engine killed", 300.0, 304.0)
FAULTS = [WORKER, DISK, ENGINE]


def asked(
    began_s: float, outcome: str = "answered", kind: str = "chat", took_s: float = 0.2, **more: object
) -> Asked:
    made = Asked(kind, "open", began_s, began_s + took_s, outcome)
    for name, value in more.items():
        setattr(made, name, value)
    return made


EXCUSED = {
    "answered": asked(10),
    "begun as its worker was killed": asked(99, "cut", "chat stream", 2),
    "a stream of responses whose engine was killed": asked(299, "cut", "response stream", 2),
    "feedback with the disk full": asked(203, "refused", "feedback"),
    "a budget that nobody can read": asked(203, "refused", key="tight"),
    "a rate": asked(10, "limited", key="rated"),
    "feedback on an answer lost with its worker": asked(120, "unknown", "feedback", about_s=99),
    "tried again as a worker was killed": asked(99.9, tries=2, took_s=1),
}
NOT_EXCUSED = {
    "failed": asked(100, "failed"),
    "cut with nobody killed": asked(50, "cut", "chat stream", 2),
    "a chat that another engine could have gone on with": asked(299, "cut", "chat stream", 2),
    "a chat that needs no store": asked(203, "refused"),
    "feedback refused with all well": asked(50, "refused", "feedback"),
    "a limit of a key that has none": asked(10, "limited"),
    "feedback on an answer of quiet times": asked(120, "unknown", "feedback", about_s=50),
    "tried again with nobody killed": asked(50, tries=2),
}


@pytest.mark.parametrize("one", EXCUSED.values(), ids=EXCUSED)
def test_what_a_request_may_end_as(one: Asked) -> None:
    assert excused(one, FAULTS) and not unanswered([one], FAULTS, 0.0)


@pytest.mark.parametrize("one", NOT_EXCUSED.values(), ids=NOT_EXCUSED)
def test_what_no_request_may_end_as(one: Asked) -> None:
    (found,) = unanswered([one], FAULTS, 0.0)
    assert found.promise == "answered"


def test_it_is_normal_again_once_requests_end_well_and_in_time() -> None:
    bad = [asked(206.2, "refused", "feedback"), *(asked(205 + n / 5, took_s=9) for n in range(20))]
    good = [asked(209 + n / 5) for n in range(100)]
    assert recovered_s(bad + good, FAULTS, DISK, 0.3) == 3.5
    assert recovered_s([*bad, *good, asked(217, "failed"), asked(212.6, "failed")], FAULTS, DISK, 0.3) is None


def promises(budget: int, spent: int, estimated: int = 0, left: int = 0, *, dry: bool = False) -> list[str]:
    found = money("k", budget, spent, estimated, Charged(900, 0, 50), left=left, cuts=0, dry=dry)
    return [violation.promise for violation in found]


def test_books_must_cover_what_engines_charged_within_the_budget() -> None:
    assert promises(1000, 900) == []
    assert promises(1000, 800) == ["kept"]
    assert promises(1000, 1000) == ["budget"]
    assert promises(1000, 1000, 100) == []
    assert promises(850, 900) == ["budget"]
    assert promises(850, 900, left=1) == []
    assert promises(10**9, 900) == [] and promises(10**9, 900, dry=True) == ["budget"]


def test_the_ledger_is_added_up_by_key_and_end(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text(
        "heard a a-1 5\nleft a a-2 3\nunheard a a-3 2\nheard b b-4 9\nheard a a-5 1\n"
    )
    assert charged(tmp_path / "ledger", "a") == Charged(6, 3, 2)


def test_an_engine_knows_a_request_by_its_last_tag_and_always_says_the_same() -> None:
    assert tagged("#open-3 What?\n#tight-12 And how?") == ("tight", "tight-12")
    assert pieces("tight-12") == pieces("tight-12") != pieces("tight-13")
    assert 5 <= len(pieces("open-1")) <= 20


def test_its_configuration_is_one(tmp_path: Path) -> None:
    urls = {name: f"http://127.0.0.1:{port}" for name, port in (("a", 1), ("b", 2), ("c", 3))}
    config = parse_config(configuration(9, urls, tmp_path, 0.1))
    assert config.listen.workers == 2 and len(config.keys) == 4


def test_faults_are_named_on_the_command_line() -> None:
    known = (*KINDS, *ORDERS)
    assert named("supervisor-killed,reload", known) == ["supervisor killed", "reload"]
    with pytest.raises(argparse.ArgumentTypeError, match="disk-empty"):
        named("disk-empty", known)


@pytest.mark.slow
def test_a_worker_and_an_engine_are_killed_for_a_short_while(tmp_path: Path) -> None:
    """How soon all is normal again is for a machine that has time for it; the rest holds on any."""
    figures = run(0.2, 3, 5.0, tmp_path / "chaos", quiet_s=1.0, kinds=("worker killed", "engine killed"))
    assert [found for found in figures["violations"] if found["promise"] != "recovery"] == [], report(figures)
    assert figures["faults"] and figures["kept"]["feedback"]
