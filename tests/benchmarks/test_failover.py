"""The benchmark of failing engines runs, reads the documented settings, and does not take a wrong answer for a whole one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.failover.__main__ import SCENARIOS, chosen, measured, summary, table
from benchmarks.failover.asking import Answer
from benchmarks.failover.catalogue import CATALOGUE, Came, judge
from benchmarks.failover.gateway import documented
from benchmarks.failover.scenario import FAIL, PASS, SAFE
from benchmarks.failover.texts import ANSWER
from benchmarks.failover.virtual import p99_s
from understudy.settings.engines import OpenAIEngine


@pytest.mark.slow
async def test_a_few_failures_are_replayed_against_a_gateway(tmp_path: Path) -> None:
    asked = chosen("S04,S08,E11")
    found = await measured(asked, documented(), tmp_path)
    assert [found[one].verdict for one in ("S04", "S08", "S00")] == [PASS] * 3, found
    assert found["E11"].figures["answered"] == 1 and table(asked, found).count("\n") == len(asked) + 1
    assert summary(asked, found).startswith(("4 pass", "3 pass, 1 partial"))


def test_in_virtual_time_replicas_take_what_round_robin_cannot() -> None:
    assert p99_s(30, 60, seed=1) < p99_s(30, 60, seed=1, by_turns=True)
    assert p99_s(30, 60, seed=1) == p99_s(30, 60, seed=1), "nothing but the seed decides"


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Answer(ok=True, text=ANSWER), PASS),
        (Answer(ok=True, text=ANSWER[:-20]), FAIL),
        (Answer(text=ANSWER[:-20], error="cut"), SAFE),
        (Answer(hung=True), FAIL),
    ],
)
def test_the_verdict_is_the_clients(answer: Answer, verdict: str) -> None:
    assert judge(Came(answer, [], []), []).verdict == verdict


def test_there_are_sixteen_published_failures_and_no_id_twice() -> None:
    assert [one.id for one in CATALOGUE] == [f"S{number:02}" for number in range(1, 17)]
    assert len({one.id for one in SCENARIOS}) == len(SCENARIOS)


def test_the_documented_settings_are_settings_of_an_engine() -> None:
    assert OpenAIEngine.model_validate({"base_url": "http://127.0.0.1/v1", **documented()}).advanced.gap_s
