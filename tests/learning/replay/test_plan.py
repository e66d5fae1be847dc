"""A plan spends where gain per cost is highest, never beyond any budget, and expands only where nothing is near."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learning.replay.plan import Candidate, Cost, Way, chance, chance_of_better, kind_of, plan
from store.jobs.replay_records import ReplayBudget

UNIT = Cost(0.01, 100, 2.0)


def candidate(
    id: int, gain: float, companion: float = 0.0, nearest: float = 0.9, **changes: object
) -> Candidate:
    made = Candidate("t", id, gain, companion, nearest, Way(UNIT, 0.5), Way(UNIT.times(3), 0.5))
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "kind"),
    [
        (candidate(1, 0.5, companion=0.1, nearest=0.2), "distil"),
        (candidate(1, 0.5, companion=0.9, nearest=0.2), "expand"),
        (candidate(1, 0.5, companion=0.9, nearest=0.95), "distil"),
        (candidate(1, 0.0, companion=0.9, nearest=0.2), "expand"),
        (candidate(1, 0.0), None),
        (candidate(1, 0.5, distil=None), None),
        (candidate(1, 0.5, companion=0.9, nearest=0.2, expand=None), "distil"),
    ],
)
def test_what_is_done_with_an_example(one: Candidate, kind: str | None) -> None:
    assert kind_of(one, thin_below=0.8) == kind


def test_the_best_gain_per_cost_comes_first_and_a_dear_line_makes_way_for_cheap_ones() -> None:
    dear = candidate(1, 1.0, distil=Way(Cost(0.05, 100, 2.0), 0.5))
    lines = plan(
        [dear, candidate(2, 0.9), candidate(3, 0.3), candidate(4, 0.5)],
        ReplayBudget(usd=0.03),
        thin_below=0.8,
    )
    assert [line.candidate.example_id for line in lines] == [2, 4, 3]
    assert lines[0].effect == pytest.approx(0.45)
    assert lines[0].per_cost == pytest.approx(0.45 / (0.01 / 0.03))
    everything = plan([dear, candidate(2, 0.9)], ReplayBudget(), thin_below=0.8)
    assert [line.candidate.example_id for line in everything] == [2, 1]


def test_what_rarely_comes_to_something_is_worth_less() -> None:
    both = [candidate(1, 0.5), candidate(2, 0.0, companion=2.0, nearest=0.1)]
    assert plan(both, ReplayBudget(), thin_below=0.8)[0].kind == "expand"
    both[1] = replace(both[1], expand=Way(UNIT.times(3), chance(0, 18)))
    assert plan(both, ReplayBudget(), thin_below=0.8)[0].kind == "distil"


def test_the_chance_of_bettering_an_answer_worked_out_by_hand() -> None:
    assert (chance(0, 0), chance(0, 18), chance(9, 10)) == (0.5, 0.05, pytest.approx(10 / 12))
    assert (chance(0, 0, rarely=True), chance(9, 90, rarely=True)) == (0.1, 0.1)
    # Two judgements, 0.0 and 0.5, beside an expectation of 0.3 that counts as two.
    assert chance_of_better(0.3, 0.5, 2) == pytest.approx((0.6 + 1.5) / 4)
    assert chance_of_better(0.3, 0.0, 0) == pytest.approx(0.3)


@given(
    st.lists(
        st.tuples(st.floats(0, 5), st.floats(0.001, 1), st.integers(1, 500), st.floats(0.1, 9)), max_size=30
    ),
    st.floats(0.01, 3),
    st.integers(1, 2000),
    st.floats(0.1, 60),
)
def test_no_budget_is_ever_planned_beyond(
    given_: list[tuple[float, float, int, float]], usd: float, tokens: int, seconds: float
) -> None:
    candidates = [
        candidate(n, gain, distil=Way(Cost(cost, size, time), 0.5))
        for n, (gain, cost, size, time) in enumerate(given_)
    ]
    lines = plan(candidates, ReplayBudget(usd, tokens, seconds), thin_below=0.8)
    assert sum(line.cost.usd for line in lines) <= usd + 1e-9
    assert sum(line.cost.tokens for line in lines) <= tokens
    assert sum(line.cost.seconds for line in lines) <= seconds + 1e-9
    worths = [line.per_cost for line in lines]
    assert worths == sorted(worths, reverse=True)
    assert all(line.candidate.gain > 0 for line in lines)
