from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learning.evaluation.off_policy import (
    METHODS,
    Estimate,
    Figure,
    Log,
    Method,
    checked_log,
    cross_fitted,
    estimate,
    ridge,
    with_estimated_known_probability,
    with_prediction,
)
from tests.learning.training.worlds import Floats, one_action, world


def quality_of(log: Log, target: Floats, **how: object) -> dict[Method, Estimate]:
    figure = Figure(log.quality, np.isfinite(log.quality), (0.0, 1.0))
    return estimate(log, target, {"quality": figure}, resamples=100, **how)["quality"]  # type: ignore[arg-type]


def chances(size: int) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(0.05, 1.0), min_size=size, max_size=size).map(lambda w: [x / sum(w) for x in w])


@settings(max_examples=30, deadline=None)
@given(
    logging=chances(3),
    target=chances(3),
    quality=st.lists(st.floats(0, 1), min_size=3, max_size=3),
    looked=st.floats(0.1, 1.0),
)
def test_ips_is_unbiased_over_the_draw_of_the_action_and_of_the_coin(
    logging: list[float], target: list[float], quality: list[float], looked: float
) -> None:
    expected = 0.0
    for action in range(3):
        for known, chance in ((True, looked), (False, 1 - looked)):
            values = np.array([quality[action] if known else np.nan])
            log = Log(
                np.array([logging]),
                np.array([action]),
                values,
                np.array([looked]),
                *np.zeros((2, 1)),
                np.zeros((1, 0)),
            )
            found = estimate(
                log,
                np.array([target]),
                {"q": Figure(values, np.isfinite(values))},
                methods=("ips",),
                resamples=100,
            )
            expected += logging[action] * chance * found["q"]["ips"].value
    assert expected == pytest.approx(float(np.dot(target, quality)), abs=1e-9)


@pytest.mark.parametrize("linear", [True, False], ids=["good model", "bad model"])
def test_every_method_is_right_on_average_whether_the_model_is_good_or_bad(linear: bool) -> None:
    errors: dict[Method, list[float]] = {method: [] for method in METHODS}
    for seed in range(80):
        made = world(seed, 250, linear=linear, looked=0.6)
        found = quality_of(made.log, one_action(250, 3, 2))
        for method in METHODS:
            errors[method].append(found[method].value - made.qualities[:, 2].mean())
    for method in METHODS:
        spread = np.std(errors[method]) / np.sqrt(80)
        assert abs(np.mean(errors[method])) < 4 * spread + 0.003, method


def test_a_good_model_makes_the_doubly_robust_estimate_steadier_than_weights_alone() -> None:
    errors: dict[Method, list[float]] = {method: [] for method in METHODS}
    widths: dict[Method, list[float]] = {method: [] for method in METHODS}
    for seed in range(40):
        made = world(seed, 400)
        for method, each in quality_of(made.log, one_action(400, 3, 0)).items():
            errors[method].append(each.value - made.qualities[:, 0].mean())
            widths[method].append(each.interval.high - each.interval.low)
    assert np.var(errors["dr"]) < 0.2 * np.var(errors["ips"])
    assert np.var(errors["dr"]) < np.var(errors["snips"])
    assert np.median(widths["dr"]) < 0.5 * np.median(widths["ips"])


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    covered = dict.fromkeys(METHODS, 0)
    for seed in range(60):
        made = world(seed, 300, looked=0.5)
        for method, each in quality_of(made.log, one_action(300, 3, 1)).items():
            # The truth of the whole traffic, of which these requests are a sample.
            covered[method] += each.interval.low <= 0.5 <= each.interval.high
    assert all(count >= 52 for count in covered.values()), covered


def test_evaluating_the_logging_policy_itself_gives_the_plain_mean() -> None:
    made = world(1, 300)
    found = quality_of(made.log, made.log.probabilities)
    assert found["ips"].value == pytest.approx(made.log.quality.mean())
    assert found["snips"].value == pytest.approx(made.log.quality.mean())
    assert found["ips"].effective_samples == pytest.approx(300)


def test_what_the_log_gave_no_chance_is_reported() -> None:
    made = world(2, 200)
    probabilities = made.log.probabilities.copy()
    probabilities[:, 0] = 0.0
    probabilities /= probabilities.sum(1, keepdims=True)
    chosen = np.where(made.log.chosen == 0, 1, made.log.chosen)
    log = replace(made.log, probabilities=probabilities, chosen=chosen)
    assert quality_of(log, one_action(200, 3, 0))["snips"].unsupported == 1.0
    assert quality_of(log, one_action(200, 3, 0))["snips"].effective_samples == 0.0
    assert quality_of(log, one_action(200, 3, 0))["snips"].interval == (0.0, 1.0)
    assert quality_of(log, one_action(200, 3, 1))["snips"].unsupported == 0.0


def test_weights_that_were_not_drawn_still_lower_the_effective_samples() -> None:
    # Every tenth request would weigh 100, and none of these was drawn: Kish alone would count 100 samples.
    probabilities = np.tile([0.5, 0.5], (100, 1))
    probabilities[::10] = [0.01, 0.99]
    chosen = np.zeros(100, int)
    chosen[::10] = 1
    log = checked_log(
        probabilities, chosen, np.ones(100), np.ones(100), np.ones(100), np.ones(100), np.zeros((100, 0))
    )
    assert quality_of(log, one_action(100, 2, 0))["ips"].effective_samples < 10


def test_cut_weights_are_reported_with_the_direction_of_their_bias() -> None:
    made = world(3, 500)
    whole, cut = (quality_of(made.log, one_action(500, 3, 2), clip=clip)["ips"] for clip in (None, 2.0))
    assert whole.clipped == whole.clipping_bias == 0.0
    assert cut.clipped > 0
    assert cut.clipping_bias < 0
    assert whole.value + cut.clipping_bias <= cut.value <= whole.value


def test_no_request_is_predicted_by_a_model_that_saw_it() -> None:
    made = world(4, 60)
    known = np.ones(60, bool)
    before = cross_fitted(made.log, made.log.quality, known, made.log.known_probability)
    for row in (0, 17, 59):
        values = made.log.quality.copy()
        values[row] = 0.5
        after = cross_fitted(made.log, values, known, made.log.known_probability)
        assert np.array_equal(before[row], after[row])


def test_a_model_that_was_fitted_before_gives_the_same_estimate() -> None:
    made = world(9, 200, looked=0.5)
    figure = Figure(made.log.quality, np.isfinite(made.log.quality), (0.0, 1.0))
    target = one_action(200, 3, 1)
    one = estimate(made.log, target, {"q": figure}, resamples=100, seed=3)
    assert one == estimate(
        made.log, target, {"q": with_prediction(made.log, figure, 3)}, resamples=100, seed=3
    )


def test_a_ridge_keeps_what_predicts_and_drops_what_does_not() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 5))
    clear = ridge(x, 2 * x[:, 0] + rng.normal(0, 0.1, 400), np.ones(400))
    assert clear[0] == pytest.approx(2, abs=0.1)
    assert np.abs(clear[1:]).max() < 0.05
    assert np.abs(ridge(x, rng.normal(size=400), np.ones(400))).max() < 0.15
    assert ridge(np.zeros((5, 0)), np.ones(5), np.ones(5)).shape == (0,)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_a_log_of_a_few_requests_gives_an_estimate_and_an_honest_interval(n: int) -> None:
    made = world(5, n)
    for each in quality_of(made.log, one_action(n, 3, 0)).values():
        assert np.isfinite(each.value) or n < 3
        assert each.interval.high - each.interval.low > 0.3


def test_unknown_quality_everywhere_claims_nothing() -> None:
    made = world(6, 50)
    log = replace(made.log, quality=np.full(50, np.nan))
    for each in quality_of(log, one_action(50, 3, 0)).values():
        assert each.interval == (0.0, 1.0)


def test_feedback_of_unknown_willingness_is_weighed_by_how_often_each_action_got_any() -> None:
    made = world(7, 2000)
    rng = np.random.default_rng(7)
    willing = np.array([0.1, 0.3, 0.9])[made.log.chosen]
    log = replace(made.log, quality=np.where(rng.random(2000) < willing, made.log.quality, np.nan))
    told = with_estimated_known_probability(log)
    assert told.known_probability[told.chosen == 0].mean() == pytest.approx(0.1, abs=0.03)
    found = quality_of(told, one_action(2000, 3, 0))["snips"]
    assert found.interval.low <= made.qualities[:, 0].mean() <= found.interval.high


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"chosen": np.array([0, 9])}, "chosen"),
        ({"chosen": np.array([0, 2])}, "probability 0"),
        ({"known_probability": np.array([0.0, 1.0])}, "known_probability"),
        ({"cost_usd": np.array([np.nan, 1.0])}, "cost_usd"),
        ({"quality": np.zeros(3)}, "quality"),
        ({"features": np.zeros((3, 1))}, "features"),
        ({"probabilities": np.array([[0.5, -0.5, 1.0], [1.0, 0.0, 0.0]])}, "probabilities"),
    ],
)
def test_impossible_logs_are_refused_by_name(change: dict[str, Floats], named: str) -> None:
    arrays: dict[str, Floats] = {
        "probabilities": np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]),
        "chosen": np.array([0, 0]),
        "quality": np.zeros(2),
        "known_probability": np.ones(2),
        "cost_usd": np.zeros(2),
        "latency_s": np.zeros(2),
        "features": np.zeros((2, 1)),
    }
    with pytest.raises(ValueError, match=named):
        checked_log(**(arrays | change))


def test_a_target_that_is_no_distribution_is_refused() -> None:
    made = world(8, 20)
    for target in (np.zeros((20, 3)), np.ones((20, 2)) / 2, one_action(20, 3, 0) * np.nan):
        with pytest.raises(ValueError, match="target"):
            quality_of(made.log, target)
