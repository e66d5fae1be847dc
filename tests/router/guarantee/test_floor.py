from __future__ import annotations

import json
import math
import random
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.guarantee.floor import FloorSettings, Judged, QualityFloor, cap_in_force, rebuilt

SETTINGS = FloorSettings(x=0.05, alpha=0.05, judged_share=0.2, lag_requests=50)


def simulated(
    stream: Callable[[int, float], float], seed: int, *, requests: int = 6000, step: int = 10
) -> tuple[float, list[float]]:
    """(most answers lost beyond x per request at any time, caps over time) of a router that offloads all it may."""
    rng = random.Random(seed)
    floor = QualityFloor(SETTINGS)
    coming: deque[tuple[int, float]] = deque()
    cap, lost, excess, offloaded, caps = floor.offload_cap(), 0.0, 0.0, 0, []
    for t in range(requests):
        deficit = stream(t, cap)
        if rng.random() < cap:
            lost += deficit
            offloaded += 1
            if rng.random() < SETTINGS.judged_share:
                coming.append((t + SETTINGS.lag_requests - step, deficit))
        excess = max(excess, lost - SETTINGS.x * (t + 1))
        if t % step == step - 1:
            while coming and coming[0][0] <= t:
                floor.note(coming.popleft()[1], SETTINGS.judged_share, float(t))
            floor.passed(step, offloaded)
            offloaded, cap = 0, floor.offload_cap()
            caps.append(cap)
    return excess, caps


def drawn(chance: Callable[[int], float], seed: int) -> Callable[[int, float], float]:
    rng = random.Random(seed + 1000)
    return lambda t, cap: float(rng.random() < chance(t))


LUCK = 1.0 + 3.0 * math.sqrt(SETTINGS.x * SETTINGS.lag_requests)
"""What the tosses of the coin that offloads may add within one lag, in answers."""


@pytest.mark.parametrize(
    "chance",
    [
        lambda t: 0.01,
        lambda t: 0.2,
        lambda t: 0.01 if t < 3000 else 0.7,
        lambda t: 0.5 * t / 6000,
        lambda t: 0.9 if (t // 100) % 10 == 0 else 0.01,
    ],
    ids=["good", "bad", "collapse", "decline", "bursts"],
)
def test_the_true_loss_never_exceeds_the_promise_however_the_small_engine_changes(
    chance: Callable[[int], float],
) -> None:
    assert sum(simulated(drawn(chance, seed), seed)[0] > LUCK for seed in range(4)) == 0


def test_an_adversary_who_sees_the_cap_cannot_break_the_promise() -> None:
    for threshold in (0.06, 0.3, 0.9):
        assert simulated(lambda t, cap, at=threshold: float(cap > at), 1)[0] <= LUCK  # type: ignore[misc]
    assert simulated(lambda t, cap: 1.0, 1)[0] <= LUCK


def test_offloading_grows_with_proof_shrinks_at_a_collapse_and_comes_back_after_it() -> None:
    _, caps = simulated(drawn(lambda t: 0.6 if 3000 <= t < 4000 else 0.005, 3), 3, requests=9000)
    assert caps[0] == pytest.approx(0.05, abs=0.02)
    assert caps[290] > 0.9
    assert min(caps[300:400]) < 0.15
    assert caps[-1] > 0.9


def test_without_evidence_the_cap_is_what_needs_no_proof() -> None:
    floor = QualityFloor(SETTINGS)
    assert floor.offload_cap() == SETTINGS.x
    floor.passed(100, 5)
    assert floor.offload_cap() == pytest.approx(SETTINGS.x)
    assert floor.status() == "limiting"


def test_offloading_more_than_was_allowed_without_proof_shuts_it_off_until_enough_was_earned() -> None:
    floor = QualityFloor(SETTINGS)
    floor.passed(20, 20)
    assert floor.offload_cap() == 0.0
    assert floor.status() == "threatened"
    floor.passed(380, 0)
    assert floor.offload_cap() == pytest.approx(SETTINGS.x)


@settings(max_examples=60, deadline=None)
@given(
    deficits=st.lists(st.floats(0, 1), min_size=1, max_size=60),
    probability=st.floats(0.2, 1.0),
    worse=st.floats(0, 1),
)
def test_worse_judgements_never_raise_the_cap_and_the_bound_covers_what_was_seen(
    deficits: list[float], probability: float, worse: float
) -> None:
    one, other = QualityFloor(SETTINGS), QualityFloor(SETTINGS)
    for deficit in deficits:
        one.note(deficit, probability, 0.0)
        other.note(max(deficit, worse), probability, 0.0)
    for floor in (one, other):
        floor.passed(5000, 1000)
    assert sum(deficits) <= one.loss_bound() + 1e-6
    assert one.loss_bound() <= other.loss_bound() + 1e-6 * 1000
    assert one.offload_cap() >= other.offload_cap() - 1e-4
    assert 0.0 <= one.offload_cap() <= 1.0


def test_the_bound_covers_the_true_loss_at_every_moment_in_all_but_alpha_of_runs() -> None:
    broken = 0
    for seed in range(40):
        rng = random.Random(seed)
        floor = QualityFloor(FloorSettings(0.1, alpha=0.1, judged_share=0.3, lag_requests=1))
        lost, below = 0.0, False
        for t in range(200):
            deficit = rng.random() if t % 7 else 1.0
            lost += deficit
            if rng.random() < 0.3:
                floor.note(deficit, 0.3, t)
            floor.passed(1, 1)
            below = below or floor.loss_bound() < lost - 1e-6
        broken += below
    assert broken <= 7  # 4 are allowed on average; 7 or fewer has a chance of 96 % even then


def test_judgements_that_stop_coming_count_as_losses() -> None:
    told, silent = QualityFloor(SETTINGS), QualityFloor(SETTINGS)
    for floor in (told, silent):
        for _ in range(400):
            floor.note(0.0, 0.2, 0.0)
        floor.passed(4000, 2000)
    assert told.offload_cap() == 1.0
    for _ in range(50):
        told.passed(40, 40)
        silent.passed(40, 40)
        for _ in range(8):
            told.note(0.0, 0.2, 0.0)
    told.passed(0, 0)
    assert told.offload_cap() == 1.0
    assert silent.offload_cap() < 0.2
    assert silent.state()["judgements_missing"] > 100


def test_good_times_cannot_save_up_more_than_the_credit() -> None:
    floor = QualityFloor(SETTINGS)
    for _ in range(200):
        for _ in range(50):
            floor.note(0.0, 1.0, 0.0)
        floor.passed(50, 50)
    assert floor.state()["credit"] <= SETTINGS.most_credit(SETTINGS.lag_requests) + 1e-6
    assert floor.status() == "holds"


def test_a_state_comes_back_from_json_and_goes_on_alike() -> None:
    floor = QualityFloor(SETTINGS)
    for number in range(100):
        floor.note((number % 10) / 10, 0.25, float(number))
    floor.passed(1000, 300)
    again = QualityFloor.from_json(floor.to_json(), SETTINGS)
    assert again.state() == floor.state()
    for each in (floor, again):
        each.note(1.0, 0.5, 200.0)
        each.passed(10, 10)
    assert again.state() == floor.state()
    json.dumps(floor.state(), allow_nan=False)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"x": 1}'])
def test_what_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="state"):
        QualityFloor.from_json(text, SETTINGS)


@pytest.mark.parametrize(
    "change",
    [
        {"spent": [1.0]},
        {"spent": [math.nan] * 16},
        {"offloaded": -1},
        {"offloaded": 10**9},
        {"forfeited": math.inf},
        {"x": 0.5},
        {"judged_share": 0.9},
    ],
)
def test_an_impossible_state_or_one_of_another_promise_is_refused(change: dict[str, object]) -> None:
    told = json.loads(QualityFloor(SETTINGS).to_json())
    with pytest.raises(ValueError, match="state"):
        QualityFloor.from_json(json.dumps(told | change), SETTINGS)


@pytest.mark.parametrize(
    ("deficit", "probability"),
    [(-0.1, 0.5), (1.1, 0.5), (math.nan, 0.5), (0.5, 0.1), (0.5, 1.1), (0.5, math.nan)],
)
def test_a_judgement_under_which_the_bound_would_not_hold_is_refused(
    deficit: float, probability: float
) -> None:
    with pytest.raises(ValueError, match="lies between"):
        QualityFloor(SETTINGS).note(deficit, probability, 0.0)


@pytest.mark.parametrize(
    "wrong",
    [{"x": 0.0}, {"x": 1.0}, {"alpha": 0.0}, {"judged_share": 0.0}, {"lag_requests": 0}],
)
def test_an_impossible_promise_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FloorSettings(**({"x": 0.05, "alpha": 0.05, "judged_share": 0.1} | wrong))  # type: ignore[arg-type]


def test_the_account_follows_from_the_log_alone() -> None:
    rng = random.Random(5)
    requests = [(float(t), rng.random() < 0.3) for t in range(2000)]
    judged = [
        Judged(at, float(rng.random() < 0.05), 0.2) for at, off in requests if off and rng.random() < 0.2
    ]
    whole = rebuilt(SETTINGS, requests, judged)
    half = rebuilt(SETTINGS, requests[:1000], [each for each in judged if each.at_s < 1000])
    half.advance(requests[1000:], [each for each in judged if each.at_s >= 1000])
    assert whole.state()["requests"] == half.state()["requests"] == 2000
    assert whole.loss_bound() == pytest.approx(half.loss_bound())
    assert whole.offload_cap() == pytest.approx(half.offload_cap(), abs=0.05)


def test_more_requests_in_the_air_make_it_more_careful_and_fewer_never_less_than_it_was_told() -> None:
    floor = QualityFloor(SETTINGS)
    for _ in range(500):
        floor.note(0.0, 0.2, 0.0)
    floor.passed(10_000, 2500)
    assert floor.offload_cap() == 1.0
    floor.keep_pace(100_000, 600.0, 60.0)
    assert floor.state()["lag_requests"] == pytest.approx(10_000, rel=0.01)
    assert floor.offload_cap() < 0.1
    again = QualityFloor.from_json(floor.to_json(), SETTINGS)
    assert again.offload_cap() == floor.offload_cap()
    floor.keep_pace(0, 6000.0, 60.0)
    assert floor.state()["lag_requests"] == SETTINGS.lag_requests
    assert floor.offload_cap() == 1.0
    for requests, over_s in ((-1, 1.0), (1, 0.0)):
        with pytest.raises(ValueError, match="pace"):
            floor.keep_pace(requests, over_s, 60.0)


def test_a_short_burst_hardly_changes_the_lag_and_a_quiet_night_forfeits_nothing_needed_at_noon() -> None:
    floor = QualityFloor(SETTINGS)
    floor.keep_pace(20, 1.0, 60.0)
    assert floor.state()["lag_requests"] == SETTINGS.lag_requests
    floor.keep_pace(6000, 600.0, 60.0)
    for _ in range(300):
        for _ in range(20):
            floor.note(0.0, 1.0, 0.0)
        floor.passed(100, 20)
    assert floor.offload_cap() == 1.0
    floor.keep_pace(0, 36_000.0, 60.0)
    floor.passed(10, 0)
    floor.keep_pace(6000, 600.0, 60.0)
    assert floor.offload_cap() == 1.0


def test_a_cap_that_nobody_brings_up_to_date_is_not_trusted_beyond_x() -> None:
    assert cap_in_force(None, 0.05, 0.0, 60.0) == 0.05
    assert cap_in_force(0.8, 0.05, 59.0, 60.0) == 0.8
    assert cap_in_force(0.8, 0.05, 61.0, 60.0) == 0.05
    assert cap_in_force(0.0, 0.05, 61.0, 60.0) == 0.0
